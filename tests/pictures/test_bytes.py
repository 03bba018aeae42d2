"""Pictures by their bytes: format and size, damage and bombs, what values are pictures."""

from __future__ import annotations

import random
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import pytest

from axe_nb.conversion.interpolation import prompt_of
from axe_nb.errors import ConfigError
from axe_nb.pictures.picture import (
    MAX_PIXELS,
    SMALL,
    NoPicture,
    Picture,
    find_parts,
    find_picture,
    fit,
    join_parts,
    make_thumbnail,
    split_parts,
    split_prompt,
)
from tests.pictures.samples import FIRST, GIF, JPEG, PDF, PNG, SECOND, WEBP, Shown, claimed_png, png


@pytest.mark.parametrize(
    ("data", "shown", "media_type"),
    [
        (PNG, "4×3 PNG", "image/png"), (JPEG, "640×480 JPEG", "image/jpeg"),
        (GIF, "5×7 GIF", "image/gif"), (WEBP, "10×10 WebP", "image/webp"),
        (PDF, "PDF", "application/pdf"),
    ],
)  # fmt: skip
def test_format_and_size_are_those_of_the_bytes(data: bytes, shown: str, media_type: str) -> None:
    picture = Picture(data)
    assert picture.shown == f"{shown}, {len(data)} bytes"
    assert picture.media_type == media_type


@pytest.mark.parametrize("whole", [PNG, JPEG, GIF, WEBP])
def test_every_cut_of_a_picture_is_refused_in_one_line(whole: bytes) -> None:
    for end in range(len(whole)):
        with pytest.raises(NoPicture) as caught:
            Picture(whole[:end])
        assert "\n" not in caught.value.message
        assert caught.value.hint


def test_any_bytes_are_a_picture_or_refused() -> None:
    chance = random.Random(7)
    for start in (b"", PNG[:8], PNG[:16], JPEG[:3], b"GIF89a", b"RIFF\0\0\0\0WEBPVP8X", PDF[:5]):
        for size in range(60):
            with suppress(NoPicture):
                assert Picture(start + chance.randbytes(size)).width >= 0


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (claimed_png(50_000, 50_000), "50,000×50,000 pixels; at most 80,000,000"),
        (png(1, 70_000), "1×70,000 pixels; at most 80,000,000 are supported, 65,535 on a"),
        *((data, "its bytes have another format") for data in (b"<svg/>", b"PK\3\4" + PNG, b"")),
    ],
    ids=["huge", "many rows", "svg", "zip", "nothing"],
)
def test_what_models_do_not_read_or_is_huge_when_unpacked_is_refused_unseen(
    data: bytes, told: str
) -> None:
    with pytest.raises(NoPicture, match=told):
        Picture(data)
    assert Picture(claimed_png(MAX_PIXELS // 10_000, 10_000)).width == MAX_PIXELS // 10_000


def test_values_that_are_pictures() -> None:
    for value in (Picture(PNG), PNG, bytearray(PNG), memoryview(PNG), Shown(), Shown((PNG, {})),
                  Shown(b64encode(PNG).decode())):  # fmt: skip
        assert find_picture(value) == Picture(PNG)
    for other in ("text", b"bytes", 1, None, [PNG], Shown, Shown(None), object()):
        assert find_picture(other) is None
    assert find_parts([1, PNG]) == [1, Picture(PNG)]
    assert find_parts([1, 2]) == find_parts("x") == find_parts({"a": PNG}) == []

    class Broken:
        def _repr_png_(self) -> bytes:
            raise ValueError("no display")

    with pytest.raises(NoPicture, match=r"^Broken cannot be drawn: ValueError: no display$"):
        find_picture(Broken())


def test_a_list_of_texts_and_pictures_is_a_prompt(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(JPEG)  # the name does not count
    text, pictures = split_prompt(["Compare", tmp_path / "a.txt", "with", PNG])
    assert text == (
        "Compare\n\n[picture 1: 640×480 JPEG, 35 bytes]\n\nwith\n\n[picture 2: 4×3 PNG, "
        f"{len(PNG)} bytes]"
    )
    assert pictures == (Picture(JPEG), Picture(PNG))

    for part, message in (
        (3, "part 2 of the prompt is neither text nor a picture: int"),
        (b"abc", "part 2 of the prompt is not a supported picture"),
        (tmp_path / "no.png", "part 2 of the prompt: cannot read the picture no.png: No such"),
        (tmp_path, "part 2 of the prompt: cannot read"),
    ):
        with pytest.raises(ConfigError, match=message):
            split_prompt(["a", part])


def test_each_picture_stands_after_its_mark() -> None:
    text, pictures = join_parts(["a ", FIRST, " b ", SECOND, " c"])
    one, two = FIRST.mark(1), SECOND.mark(2)
    assert list(split_parts(text, pictures)) == [f"a {one}", FIRST, f" b {two}", SECOND, " c"]
    assert list(split_parts("cut", pictures)) == ["cut", one, FIRST, two, SECOND]
    assert list(split_parts(f"{two} {one}", pictures)) == [f"{two} {one}", FIRST, two, SECOND]
    assert list(split_parts("no picture", ())) == ["no picture"]


def test_a_picture_that_is_too_large_is_scaled_down() -> None:
    pytest.importorskip("PIL")
    large = Picture(png(900, 600, noise=bytes(50_000)))
    small = fit(large, 20_000)
    assert small.size <= 20_000
    assert small.width < 900
    assert abs(small.width / small.height - 1.5) < 0.05
    assert fit(large, 0) is fit(large, large.size) is large
    assert fit(Picture(png(9000, 100)), 0).width == 8000


def test_one_that_cannot_be_unpacked_or_is_a_document_is_refused_with_its_size() -> None:
    with pytest.raises(NoPicture, match=r"the picture \(3000×2000 PNG, 1 kB\) is too large"):
        fit(Picture(claimed_png(3000, 2000) + bytes(1000)), 1000)
    with pytest.raises(NoPicture, match=r"the document \(PDF, 5 kB\) is too large: at most 1 kB"):
        fit(Picture(PDF + bytes(5000)), 1000)


def test_a_thumbnail_is_small_or_none() -> None:
    assert make_thumbnail(Picture(PNG)) == Picture(PNG).url
    for data in (PDF, claimed_png(5000, 5000), claimed_png(50, 50) + bytes(SMALL)):
        assert make_thumbnail(Picture(data)) == ""
    pytest.importorskip("PIL")
    url = make_thumbnail(Picture(png(2000, 1000, noise=bytes(90_000))))
    assert url.startswith("data:image/webp;base64,")
    assert len(url) < SMALL


def test_pictures_in_braces_stand_where_the_braces_are() -> None:
    pictures: list[Picture] = []
    names = {"fig": Shown(), "figs": [FIRST, "and", SECOND], "bad": Shown(PNG[:40]), "b": b"x"}
    text = prompt_of("Look at {{ fig }}, then\n{{ figs }}", names, pictures=pictures)
    assert text == "\n".join(
        [f"Look at {Picture(PNG).mark(1)}, then", FIRST.mark(2), "and", SECOND.mark(3)]
    )
    assert pictures == [Picture(PNG), FIRST, SECOND]
    for name, told in (
        ("bad", "{{ bad }} cannot be sent: the PNG is damaged.*line 2"),
        ("b", "{{ b }} is of type bytes, which cannot be converted to text"),
    ):
        with pytest.raises(ConfigError, match=told):
            prompt_of(f"{{{{ {name} }}}}", names, pictures=pictures)
