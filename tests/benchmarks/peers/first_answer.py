"""A new process to its first answer; imports nothing that a contender does not import itself.

`python first_answer.py NAME FIRST_LINE` prints what FIRST_LINE cost, which is the import of the
first example of the library, and how many modules it loaded.
"""

import sys
import time

modules, began, cpu = len(sys.modules), time.perf_counter(), time.process_time()
exec(sys.argv[2])
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
modules = len(sys.modules) - modules

answer = __import__(f"with_{sys.argv[1]}").ask()
if hasattr(answer, "__await__"):
    import asyncio

    async def finish(answer):
        return await answer

    answer = asyncio.run(finish(answer))
assert answer == "done", answer
print(f'{{"seconds": {seconds}, "cpu": {cpu}, "modules": {modules}}}')
