"""Guards of a page: scripts that ran, foreign elements and attributes, fetched resources."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

DISPLAY = Path(__file__).resolve().parents[1] / "display"
sys.path.insert(0, str(DISPLAY))
from hostile import ATTRIBUTES, ELEMENTS  # noqa: E402  # it stands beside the tests of display

OURS = ".agentnb-card, .agentnb-run"
WATCH = """([elements, attributes, ours]) => {
    const seen = window.__harm = {ran: [], found: new Set()};
    for (const name of ['alert', 'confirm', 'prompt', 'msgbox', 'open']) {
        window[name] = (...given) => { seen.ran.push(`${name}(${given})`); return null; };
    }
    const isElement = new Set(elements), isAttribute = new Set(attributes);
    const tell = text => { if (seen.found.size < 50) seen.found.add(text.slice(0, 300)); };
    const link = /^(https?:|mailto:)/i, picture = /^data:image\\/(png|jpeg|gif|webp);base64,/;
    const within = /^#agentnb(-|%2D)[A-Za-z0-9]+\\1(finding\\1)?\\d+$/; // to a round of the card, or to a finding
    const check = one => {
        const name = one.localName;
        if (!isElement.has(name)) tell(`element ${name}: ${one.outerHTML}`);
        if (one.namespaceURI !== 'http://www.w3.org/1999/xhtml') tell(`namespace of ${name}`);
        for (const {name: key, value} of one.attributes) {
            if (key.startsWith('on')) tell(`handler ${key}=${value}`);
            else if (!/^(data|aria)-[a-z-]+$/.test(key) && !isAttribute.has(key)) tell(`attribute ${key} of ${name}: ${value}`);
            if (key === 'href' && within.test(value) && /^agentnb-to-(round|finding)$/.test(one.className)) continue;
            if (key === 'href' && !(name === 'a' && link.test(value) && link.test(one.href))) tell(`link ${value}`);
            if (key === 'src' && !picture.test(value)) tell(`picture ${value}`);
            if (key === 'style' && /fixed|sticky|url\\(|expression/i.test(value)) tell(`style ${value}`);
            if (key === 'class' && value.split(' ').some(it => it && !/^agentnb-/.test(it))) tell(`class ${value}`);
        }
    };
    const all = root => {
        if (root.nodeType === Node.COMMENT_NODE) return tell(`comment ${root.data}`);
        if (root.nodeType !== Node.ELEMENT_NODE || !root.isConnected) return;
        if (root.closest(ours)) check(root);
        root.querySelectorAll('*').forEach(one => one.closest(ours) && check(one));
    };
    window.__check = () => document.querySelectorAll(ours).forEach(all);
    window.__spilled = () => Array.from(document.querySelectorAll(ours)).flatMap(card => {
        const box = card.getBoundingClientRect();
        return Array.from(card.querySelectorAll('*')).filter(one => {
            const style = getComputedStyle(one);
            return style.position === 'fixed' || style.position === 'sticky';
        }).map(one => one.outerHTML.slice(0, 200));
    });
    new MutationObserver(changes => {
        for (const change of changes) {
            if (change.type === 'attributes') { if (change.target.closest(ours)) check(change.target); }
            else change.addedNodes.forEach(all);
        }
    }).observe(document, {subtree: true, childList: true, attributes: true});
}"""
LATER = ["hidden", "autocomplete", "content", "charset"]
"""Attributes that the browser module sets, or that only a whole page has."""


class Guard:
    """Watches a page from before it is loaded. ``server`` is the only address that it may fetch from."""

    def __init__(self, page: Any, server: str) -> None:
        self.page = page
        self.fetched: list[str] = []
        self.dialogs: list[str] = []
        self.said: list[str] = []
        allowed = json.dumps([sorted(ELEMENTS), sorted([*ATTRIBUTES, *LATER]), OURS])
        page.add_init_script(f"({WATCH})({allowed})")
        page.on("request", lambda request: self._requested(request.url, server))
        page.on("dialog", lambda dialog: self.dialogs.append(dialog.message) if dialog.type != "beforeunload" else None)
        page.on("console", lambda message: self.said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))

    def _requested(self, url: str, server: str) -> None:
        if not url.startswith((server, "data:", "blob:", server.replace("http", "ws", 1))):
            self.fetched.append(url)

    def check(self) -> None:
        """Check that nothing forbidden has happened so far."""
        self.page.evaluate("() => window.__check()")
        harm = self.page.evaluate("() => ({ran: window.__harm.ran, found: [...window.__harm.found]})")
        assert harm == {"ran": [], "found": []}
        assert self.page.evaluate("() => window.__spilled()") == []
        assert self.dialogs == []
        assert self.fetched == []


def outline(page: Any) -> list[str]:
    """Return the structure of the page outside the cards: no card may change it."""
    script = """ours => Array.from(document.querySelectorAll('body *'))
        .filter(one => !one.closest(ours) && ['SCRIPT', 'STYLE', 'LINK', 'META', 'BASE', 'IFRAME', 'OBJECT', 'EMBED', 'FORM']
            .includes(one.nodeName)).map(one => one.nodeName)"""
    return sorted(page.evaluate(script, OURS))
