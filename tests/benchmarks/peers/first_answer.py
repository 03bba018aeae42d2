"""A new process to its first answer; imports nothing that a contender does not import itself.

`python first_answer.py NAME FIRST_LINE` prints what FIRST_LINE cost, which is the import of the
first example of the library, how many modules it loaded, and the memory of the process at most.
"""

import sys
import time

modules, began, cpu = len(sys.modules), time.perf_counter(), time.process_time()
exec(sys.argv[2])
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
modules = len(sys.modules) - modules
imported = {"import_seconds": seconds, "import_cpu": cpu, "import_modules": modules}

answer = __import__(f"with_{sys.argv[1]}").ask()
if hasattr(answer, "__await__"):
    import asyncio

    async def finish(answer):
        return await answer

    answer = asyncio.run(finish(answer))
assert answer == "done", answer
with open("/proc/self/status") as lines:  # noqa: PTH123  # ru_maxrss begins with the parent's
    grown = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
print(str({"grown": grown, **imported}).replace("'", '"'))
