"""Size limits for the pictures of a run: of each picture, and of all in one request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from axe_nb.errors import ConfigError
from axe_nb.messages import Message
from axe_nb.pictures.picture import Illustrated, Picture, format_bytes
from axe_nb.pictures.scaled import fit
from axe_nb.threads import in_thread
from axe_nb.tools.tool import ToolOutput

IN_REQUEST = 4
"""Size limit for all pictures in one request, as a multiple of that for one picture."""

MAX_COUNT = 500
"""Maximum number of pictures in one request; servers accept about as many."""

OF_PROTOCOL = {"anthropic": 3_900_000}
"""Protocol → maximum bytes of a picture in its API: 5 MiB in base64."""


@dataclass(slots=True)
class PictureRoom:
    """The room that is left for pictures in the requests of one run."""

    limit: int
    """Maximum bytes of one picture, from `limits.max_picture_bytes`; 0 = no limit."""
    protocol: str
    used: int = 0
    count: int = 0

    def use(self, messages: Iterable[Message]) -> None:
        """Counts the pictures of a conversation."""
        sizes = [one.size for message in messages for one in message.all_pictures()]
        self.used += sum(sizes)
        self.count += len(sizes)

    async def admit(self, pictures: Iterable[Picture]) -> tuple[Picture, ...]:
        """Counts pictures, and returns them as they are sent: scaled down if necessary.

        Raises ConfigError if one of them is too large, or all of them are, or they are too many.
        """
        fitted: list[Picture] = []
        used, count = self.used, self.count
        limits = (self.limit, OF_PROTOCOL.get(self.protocol, 0))
        most = min(filter(None, limits), default=0)
        for picture in pictures:  # one by one: a run that is stopped leaves no more than one
            fitted.append(await in_thread(fit, picture, most))
            used, count = used + fitted[-1].size, count + 1
            if 0 < IN_REQUEST * self.limit < used:
                limit = format_bytes(IN_REQUEST * self.limit)
                problem = f"more than {limit}, four times limits.max_picture_bytes"
            elif count > MAX_COUNT:
                problem = f"more than {MAX_COUNT}"
            else:
                continue
            raise ConfigError(
                f"the pictures in one request would be {problem}",
                hint="send fewer, or start a new conversation",
            )
        self.used, self.count = used, count
        return tuple(fitted)

    async def admit_prompt(
        self, prompt: str, pictures: Sequence[Picture], files: Sequence[tuple[str, Picture]]
    ) -> Illustrated:
        """Returns a prompt with its pictures, scaled down if necessary.

        The marks of `pictures` are in it; those of `files`, (path, picture), are listed below it.
        """
        if not (pictures or files):
            return Illustrated(prompt)
        own = await self.admit(pictures)
        added = await self.admit(picture for _, picture in files)
        text = _with_marks(prompt, pictures, own)
        if not files:
            return Illustrated(text, own)
        lines = (
            f"{path}: {picture.mark(number)}"
            for number, ((path, _), picture) in enumerate(
                zip(files, added, strict=True), len(own) + 1
            )
        )
        return Illustrated("\n".join([text, "", *lines]), (*own, *added))

    async def admit_output(self, output: ToolOutput) -> ToolOutput:
        """Returns the output of a tool, pictures scaled down; an error if they are too large."""
        if not output.pictures:
            return output
        try:
            fitted = await self.admit(output.pictures)
        except ConfigError as error:
            return ToolOutput(f"Error: {error.message}; {error.hint}", is_error=True)
        content = _with_marks(output.content, output.pictures, fitted)
        return replace(output, content=content, pictures=fitted)


def _with_marks(text: str, before: Sequence[Picture], after: Sequence[Picture]) -> str:
    """Returns the text with marks that match the scaled pictures."""
    for number, (old, new) in enumerate(zip(before, after, strict=True), 1):
        if new is not old:
            text = text.replace(old.mark(number), new.mark(number), 1)
    return text
