"""Pictures of tools: for a model, and as text."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import product
from typing import Any

import IPython.display
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import PIL.Image
import pytest
from asserted_sentences import Snapshot
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure

from agentnb.core.messages import Image, Text
from agentnb.tools import pictures
from agentnb.tools.defaults import MAX_PIXELS
from agentnb.tools.pictures import MAX_AS_PNG, MAX_BYTES, media_type, picture_of, size_of
from agentnb.tools.rendering import MAX_PICTURES, as_text, success


@pytest.fixture(autouse=True)
def own_pyplot() -> Iterator[None]:
    plt.switch_backend("agg")
    yield
    plt.close("all")


def drawn(*size: float, dpi: float = 100) -> Figure:
    figure = Figure(figsize=size or (4, 3), dpi=dpi)
    figure.subplots().plot([1, 3, 2])
    return figure


def shown(value: Any) -> tuple[str, Image]:
    """Return the text and the picture of a value."""
    words, picture = success(value).parts
    assert isinstance(words, Text) and isinstance(picture, Image)
    return words.text, picture


def words(value: Any) -> str:
    """Return the text of a value without a picture."""
    (only,) = success(value).parts
    assert isinstance(only, Text)
    return only.text


def opened(picture: Image) -> PIL.Image.Image:
    image = PIL.Image.open(BytesIO(picture.data))
    image.load()
    assert picture.media_type == f"image/{(image.format or '').lower()}" == media_type(picture.data)
    return image


def saved(image: PIL.Image.Image, kind: str, **how: Any) -> bytes:
    file = BytesIO()
    image.save(file, kind, **how)
    return file.getvalue()


def noise(width: int, height: int, mode: str = "RGB") -> PIL.Image.Image:
    """Return a picture that no format compresses."""
    data = np.random.default_rng(0).integers(0, 255, (height, width, len(mode)), np.uint8)
    return PIL.Image.fromarray(data.squeeze())


# Figures


@pytest.mark.req("R2.3")
def test_figure_becomes_a_picture_with_text() -> None:
    description, picture = shown(drawn())
    assert description == "a figure of 400 x 300 pixels"
    image = opened(picture)
    assert (picture.media_type, image.size) == ("image/png", (400, 300))
    assert len(image.convert("RGB").getcolors(400 * 300) or ()) > 2  # something is drawn


def test_artist_is_shown_as_its_figure(subtests: pytest.Subtests) -> None:
    cases = {
        "axes": lambda figure: figure.axes[0],
        "line": lambda figure: figure.axes[0].lines[0],
        "axis": lambda figure: figure.axes[0].xaxis,
        "array of axes": lambda figure: np.array([[figure.axes[0]]], dtype=object),
        "object with a figure": lambda figure: type("Grid", (), {"figure": figure})(),
        "object with axes for one": lambda figure: type("Grid", (), {"figure": figure.axes[0]})(),
    }
    figure = drawn(2, 1)
    whole = shown(figure)
    for name, part in cases.items():
        with subtests.test(name):
            assert shown(part(figure)) == whole


def test_subfigure_is_shown_as_the_whole_figure() -> None:
    figure = Figure(figsize=(4, 3), dpi=100)
    left, _ = figure.subfigures(1, 2)
    axes = left.subplots()
    assert shown(left)[0] == shown(axes)[0] == "a figure of 400 x 300 pixels"


def test_large_figure_is_scaled_to_the_size_models_see(subtests: pytest.Subtests) -> None:
    for size in [(40, 10), (10, 40), (15.69, 3), (200, 10)]:
        with subtests.test(size=size):
            description, picture = shown(Figure(figsize=size, dpi=100))
            image = opened(picture)
            assert max(image.size) <= MAX_PIXELS and max(image.size) >= MAX_PIXELS - 2
            assert (
                description
                == f"a figure of {size[0] * 100:.0f} x {size[1] * 100:.0f} pixels, shown as {image.width} x {image.height}"
            )


def test_content_beyond_the_edge_is_included() -> None:
    inside, beyond = Figure(figsize=(6, 2.5), dpi=100), Figure(figsize=(6, 2.5), dpi=100)
    for figure, rotation in ((inside, 0), (beyond, 90)):
        axes = figure.subplots()
        axes.bar(["a", "b"], [1, 2])
        axes.set_xticks([0, 1], ["a rather long label", "another label that is long"], rotation=rotation)
    assert opened(shown(inside)[1]).size == (600, 250)
    width, height = opened(shown(beyond)[1]).size
    assert width == 600 and 300 < height < 500


def test_figure_that_grows_during_drawing_is_redrawn() -> None:
    figure = drawn(15, 3)
    figure.text(3.0, 0.5, "far outside")
    with mpl.rc_context({"savefig.bbox": "tight"}):
        _, picture = shown(figure)
    assert MAX_PIXELS / 2 < max(opened(picture).size) <= MAX_PIXELS


def test_drawing_changes_neither_figure_nor_pyplot() -> None:
    other = plt.figure()
    figure, axes = plt.subplots(figsize=(30, 4), dpi=100)
    plt.figure(other)
    before = (figure.canvas, figure.dpi, tuple(figure.get_size_inches()), figure.canvas.manager)
    shown(axes)
    assert before == (figure.canvas, figure.dpi, tuple(figure.get_size_inches()), figure.canvas.manager)
    assert plt.gcf() is other and plt.get_fignums() == [other.number, figure.number]


def test_figure_is_drawn_identically_on_any_backend() -> None:
    class Screen(FigureCanvasBase):
        def print_png(self, file: Any, **how: Any) -> None:
            raise RuntimeError("a screen is not for drawing files")

    figure, seen = drawn(), shown(drawn())
    Screen(figure)
    assert shown(figure) == seen and isinstance(figure.canvas, Screen)


def test_closed_figure_can_still_be_drawn() -> None:
    figure, _ = plt.subplots(figsize=(4, 3), dpi=100)
    plt.close(figure)
    assert shown(figure)[0] == "a figure of 400 x 300 pixels" and plt.get_fignums() == []


def test_figure_can_be_drawn_from_many_threads() -> None:
    figure = drawn(20, 1)
    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(shown, [figure] * 4))
    assert len({picture.data for _, picture in result}) == 1 and figure.dpi == 100


def test_undrawable_figure_is_described_with_the_reason() -> None:
    figure = drawn()
    figure.axes[0].set_title("$\\nonsense{$")
    text = words(figure)
    assert text.startswith("a figure of 400 x 300 pixels (it could not be rendered: ValueError: ")


def test_oversized_figure_is_described_with_the_reason() -> None:
    figure = drawn()
    figure.text(1e6, 0.5, "very far outside")
    with mpl.rc_context({"savefig.bbox": "tight"}):
        assert "it could not be rendered" in words(figure)


# Pictures of PIL


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a small photo exceeds."""
    monkeypatch.setattr(pictures, "MAX_AS_PNG", MAX_AS_PNG // 25)
    monkeypatch.setattr(pictures, "MAX_BYTES", MAX_BYTES // 25)


@pytest.mark.req("R2.3")
def test_every_image_mode_becomes_a_picture_of_visible_size(subtests: pytest.Subtests) -> None:
    cases = ["1", "L", "LA", "I", "I;16", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB", "F", "RGBa"]
    for mode, size in product(cases, [(40, 30), (3136, 10)]):
        with subtests.test(mode=mode, size=size):
            image = PIL.Image.new(mode, size)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                description, picture = shown(image)
            small = (1568, 5)
            assert opened(picture).size == (size if size == (40, 30) else small)
            note = "" if size == (40, 30) else ", shown as 1568 x 5"
            assert description == f"a picture of {size[0]} x {size[1]} pixels{note}"
            assert image.size == size and image.mode == mode


@pytest.mark.usefixtures("small_limits")
def test_large_photo_is_sent_as_jpeg() -> None:
    description, picture = shown(noise(300, 240))
    assert picture.media_type == "image/jpeg" and opened(picture).size == (300, 240)
    assert len(picture.data) < pictures.MAX_BYTES and description == "a picture of 300 x 240 pixels"


@pytest.mark.usefixtures("small_limits")
def test_large_opaque_rgba_photo_is_sent_as_jpeg() -> None:
    opaque = noise(300, 240).convert("RGBA")
    assert shown(opaque)[1].media_type == "image/jpeg"


@pytest.mark.usefixtures("small_limits")
def test_transparency_is_kept_and_oversized_transparent_pictures_are_omitted(snapshot: Snapshot) -> None:
    assert opened(shown(noise(40, 30, "RGBA"))[1]).mode == "RGBA"
    assert words(noise(300, 240, "RGBA")) == snapshot


def test_unreadable_picture_is_described_with_the_reason() -> None:
    data = saved(noise(400, 300), "PNG")
    image = PIL.Image.open(BytesIO(data[:1000]))
    assert words(image).startswith("a picture of 400 x 300 pixels (it could not be rendered: OSError: ")


# Files


FORMATS = ["PNG", "JPEG", "GIF", "WEBP"]


def test_picture_bytes_are_sent_unchanged(subtests: pytest.Subtests) -> None:
    for kind, wrap in product(FORMATS, [bytes, bytearray, memoryview, IPython.display.Image]):
        with subtests.test(kind=kind, wrap=wrap):
            data = saved(noise(40, 30), kind)
            description, picture = shown(wrap(data))
            assert (picture.data, picture.media_type, opened(picture).size) == (data, f"image/{kind.lower()}", (40, 30))
            webp = f"a picture (image/webp, {len(data):,} bytes)"
            assert description == (webp if kind == "WEBP" else "a picture of 40 x 30 pixels")


def test_truncated_picture_is_shown_as_bytes(subtests: pytest.Subtests) -> None:
    for kind, part in product(FORMATS, [0, 3, 8, 20, 0.5]):
        with subtests.test(kind=kind, part=part):
            data = saved(noise(40, 30), kind)
            data = data[: int(part * len(data)) if part == 0.5 else int(part)]
            assert words(data) == f"{len(data)} bytes" and media_type(data) is None and size_of(data) is None


def test_files_that_are_not_pictures_are_shown_as_bytes(subtests: pytest.Subtests) -> None:
    cases = [b"%PDF-1.7", b"<svg></svg>", b"BM" + bytes(60), b"II*\x00" + bytes(60), b"a,b\n1,2"]
    for data in cases:
        with subtests.test(data=data):
            assert words(data) == f"{len(data)} bytes"


def test_jpeg_size_is_read_after_any_leading_segments(subtests: pytest.Subtests) -> None:
    cases = [{}, {"progressive": True}, {"quality": 5}, {"exif": b"Exif\x00\x00" + bytes(5000)}]
    for how in cases:
        with subtests.test(how=how):
            assert size_of(saved(noise(41, 17), "JPEG", **how)) == (41, 17)


def test_jpeg_size_is_not_read_from_its_tables() -> None:
    data = saved(noise(41, 17), "JPEG")
    assert size_of(data[:2] + b"\xff\xc4\x00\x13" + bytes(17) + data[2:]) == (41, 17)


@pytest.mark.usefixtures("small_limits")
def test_large_picture_file_is_omitted_with_its_size() -> None:
    data = saved(noise(300, 240), "PNG")
    assert words(data) == f"a picture of 300 x 240 pixels (left out: {len(data) / 1e6:.1f} MB)"
    assert words(Image("image/png", data)) == words(IPython.display.Image(data)) == words(data)


def test_picture_file_with_too_many_pixels_is_omitted(snapshot: Snapshot) -> None:
    assert words(saved(PIL.Image.new("1", (9000, 10)), "PNG")) == snapshot


def test_pictures_fit_the_limit_of_providers() -> None:
    assert len(base64.b64encode(bytes(MAX_BYTES))) < 5 * 1024 * 1024


def test_pictures_above_the_maximum_are_only_described() -> None:
    parts = success([PIL.Image.new("1", (2, 2)) for _ in range(MAX_PICTURES + 2)]).parts
    assert sum(isinstance(part, Image) for part in parts) == MAX_PICTURES
    assert isinstance(parts[-1], Text) and parts[-1].text.count("size=2x2") == 2


def test_picture_address_is_described_and_not_fetched() -> None:
    assert words(IPython.display.Image(url="https://example.org/a.png")) == "a picture at https://example.org/a.png"


def test_ipython_image_without_data_is_shown_as_an_object() -> None:
    assert "IPython.core.display.Image object" in words(IPython.display.Image(data=b"no picture", format="png"))


# Objects that draw themselves


PNG = saved(noise(8, 8), "PNG")
JPEG = saved(noise(8, 8), "JPEG")


def drawing_itself(**methods: Any) -> Any:
    """Return an object whose methods return these, or raise them."""

    def method(result: Any) -> Callable[[Any], Any]:
        def show(self: Any) -> Any:
            if isinstance(result, Exception):
                raise result
            return result

        return show

    show = {name: method(result) for name, result in methods.items()}
    return type("Chart", (), {**show, "__repr__": lambda self: "<chart>"})()


def test_notebook_representation_becomes_a_picture_with_text(subtests: pytest.Subtests) -> None:
    cases = [
        ({"_repr_png_": PNG}, "image/png", PNG),
        ({"_repr_png_": (PNG, {"width": 8})}, "image/png", PNG),
        ({"_repr_png_": base64.b64encode(PNG).decode()}, "image/png", PNG),
        ({"_repr_jpeg_": JPEG}, "image/jpeg", JPEG),
        ({"_repr_png_": None, "_repr_jpeg_": JPEG}, "image/jpeg", JPEG),
    ]
    for methods, kind, data in cases:
        with subtests.test(methods=methods):
            description, picture = shown(drawing_itself(**methods))
            assert (description.strip('"'), picture) == ("<chart>", Image(kind, data))


def test_object_without_a_picture_is_shown_by_its_repr(subtests: pytest.Subtests) -> None:
    for result in [None, b"", b"no picture", (), 3, "<svg/>"]:
        with subtests.test(result=result):
            assert words(drawing_itself(_repr_png_=result)).strip('"').startswith("<chart>")


def test_object_that_fails_to_draw_is_described_with_the_reason(snapshot: Snapshot) -> None:
    chart = drawing_itself(_repr_png_=RuntimeError("no ink"))
    assert words(chart) == snapshot


def test_converting_a_figure_to_text_does_not_draw_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "_render", None)
    assert as_text(drawn()) == "a figure of 400 x 300 pixels"


class Everything:
    """Has every attribute, figures and pictures among them."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **how: Everything()


class FailsWhenAsked:
    @property
    def figure(self) -> Any:
        raise RuntimeError("no figure today")


PLAIN: list[Any] = [
    "text",
    1,
    None,
    {},
    [],
    np.zeros((3, 3)),
    np.array([], dtype=object),
    np.array([1, None]),
    object(),
    Figure,
]


def test_other_values_are_not_pictures(subtests: pytest.Subtests) -> None:
    for value in [*PLAIN, Everything(), FailsWhenAsked()]:
        with subtests.test(value=value):
            assert picture_of(value) is None
