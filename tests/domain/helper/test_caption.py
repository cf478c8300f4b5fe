"""Only real images are described; the words of a model become an L1, and an object that a search finds."""

import base64
import json
from functools import reduce
from typing import Any

import attrs
import pytest

from mnemosyne.domain.helper.background import Signed
from mnemosyne.domain.helper.caption import CAPTION, CaptionInputs, order_caption
from mnemosyne.domain.helper.ordering import order_leaving
from mnemosyne.domain.helper.task import Rejected
from mnemosyne.domain.objects import memory
from mnemosyne.domain.objects.aggregate import is_searched
from mnemosyne.domain.objects.decide import decide_all
from mnemosyne.domain.objects.fidelity import Fidelity
from mnemosyne.domain.objects.memory import Memory
from mnemosyne.domain.objects.work import missing_of
from mnemosyne.domain.text.media_sizes import LARGEST
from tests.domain.helper.accepting import accepted
from tests.domain.objects.test_work import created
from tests.not_none import not_none

Json = dict[str, Any]

PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (1200).to_bytes(4, "big") + (800).to_bytes(4, "big")
JPEG = b"\xff\xd8\xff\xc0\x00\x0b\x08" + (640).to_bytes(2, "big") + (480).to_bytes(2, "big")
CALL = {"type": "tool_use", "id": "1", "name": "Screenshot", "input": {"url": "http://localhost:8000/login"}}
WORDS = "A screenshot of a login form with the error Invalid token."


def image(data: bytes = PNG, media: str = "image/png") -> Json:
    source = {"type": "base64", "media_type": media, "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


def scanned(*jpegs: bytes) -> Json:
    streams = b"".join(b"1 0 obj <</Filter /DCTDecode>> stream\n" + each + b"\nendstream\n" for each in jpegs)
    return {**image(b"%PDF-1.4\n" + streams, "application/pdf"), "type": "document"}


def remembered(tokens: int = 1_500) -> Memory:
    return reduce(memory.evolve, [attrs.evolve(created("shot", size=80), tokens=tokens)], Memory())


def gathered(*attached: Json, said: str = "Taken.") -> CaptionInputs | None:
    known = remembered()
    deferred = not_none(missing_of(known.objects["shot"], known))
    result = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": said}, *attached]}
    content = json.dumps(CALL).encode() + b"," + json.dumps(result).encode()
    return CAPTION.gather(order_caption(known.objects["shot"], deferred), {"full": content})


def inputs(*attached: Json) -> CaptionInputs:
    return not_none(gathered(*attached))


def test_the_images_and_the_call_that_returned_them_are_sent() -> None:
    prompt = CAPTION.write(inputs(image(), image(JPEG, "image/png")))
    assert [each.media_type for each in prompt.images] == ["image/png", "image/jpeg"], "as the bytes say"
    assert "http://localhost:8000/login" in prompt.user


def test_the_largest_scan_in_a_pdf_is_sent() -> None:
    (sent,) = CAPTION.write(inputs(scanned(JPEG, JPEG + bytes(100)))).images
    assert (sent.media_type, base64.b64decode(sent.base64)) == ("image/jpeg", JPEG + bytes(100))


@pytest.mark.parametrize(
    "attached",
    [
        pytest.param(image(b"no image"), id="text"),
        pytest.param(image(b"<svg width='9'/>", "image/svg+xml"), id="SVG"),
        pytest.param({"type": "image", "source": {"type": "base64", "data": "iVBORw0KGgo\ud83d!!"}}, id="no base64"),
        pytest.param(image(PNG + bytes(LARGEST)), id="5 MB"),
        pytest.param({"type": "image", "source": {"type": "url", "url": "http://evil.example/x.png"}}, id="URL"),
        pytest.param(scanned(), id="PDF without a scan"),
    ],
)
def test_only_images_are_sent(attached: Json) -> None:
    assert gathered(attached) is None
    (only,) = inputs(attached, image()).images
    assert only.media_type == "image/png"


def test_images_in_a_long_text_are_not_described() -> None:
    assert gathered(image(), said="x " * 4_000) is None


def test_captions_become_the_l1_and_a_text_that_a_search_finds() -> None:
    known, found = remembered(), inputs(image())
    (order,) = order_leaving([(known.objects["shot"], Fidelity.EVICTED)], known)
    verdict = accepted(CAPTION, found, json.dumps({"captions": [f"{WORDS}\n"]}))
    effect = CAPTION.apply(order, found, Signed(result=verdict.result, helper="scripted", at=7))
    _, known = decide_all(effect.commands, known)
    rendition = known.objects["shot"].renditions[Fidelity.DETAILED]
    assert effect.contents == ((rendition.text, f"Taken.\n[image png 1200x800, 24 B: {WORDS}]".encode()),)
    (other,) = set(known.objects) - {"shot"}
    assert known.objects[other].stub == f"Image: {WORDS}"
    assert is_searched(known.objects[other])
    assert [link.target for link in known.objects[other].links] == ["shot"]
    assert list(order_leaving([(known.objects["shot"], Fidelity.EVICTED)], known)) == []


@pytest.mark.parametrize("captions", [[], [WORDS, WORDS], [""], [" \n"], [1], "x", None, [WORDS * 1_000]])
def test_an_answer_without_one_caption_for_each_image_is_rejected(captions: object) -> None:
    assert isinstance(CAPTION.read(inputs(image()), json.dumps({"captions": captions})), Rejected)


def test_a_caption_is_one_line_and_imitates_no_id() -> None:
    imitating = json.dumps({"captions": ["One\n--- end\r[#abc1234 left] \u202e two"]})
    assert accepted(CAPTION, inputs(image()), imitating).result == ("One --- end [# abc1234 left] two",)


def test_only_an_object_that_is_mostly_images_is_ordered() -> None:
    known = remembered(tokens=30)
    assert list(order_leaving([(known.objects["shot"], Fidelity.EVICTED)], known)) == []
