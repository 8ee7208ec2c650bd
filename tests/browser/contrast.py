"""Contrast of the words of a card with their background."""

from __future__ import annotations

from typing import Any

COLOURS = """card => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const known = new Map();  // to paint and read a colour takes long, and there are few
    const rgba = css => {
        if (!known.has(css)) {
            canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css; canvas.fillRect(0, 0, 1, 1);
            const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
            known.set(css, [r, g, b, a / 255]);
        }
        return known.get(css);
    };
    const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
    const ground = one => {
        const layers = [];
        for (let at = one; at; at = at.parentElement) layers.unshift(rgba(getComputedStyle(at).backgroundColor));
        return layers.reduce((under, top) => over(top, under), [255, 255, 255, 1]);
    };
    const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const light = colour => { const [r, g, b] = colour.map(v => linear(v / 255));
                              return .2126 * r + .7152 * g + .0722 * b; };
    const opacity = one => {
        let all = 1;
        for (let at = one; at; at = at.parentElement) all *= getComputedStyle(at).opacity;
        return all;
    };
    const found = [];
    for (const one of card.querySelectorAll('*')) {
        const text = [...one.childNodes].filter(n => n.nodeType === 3).map(n => n.data.trim()).join('');
        const out = !one.getClientRects().length;
        if (!text || out || one.closest('.agentnb-unseen, .agentnb-mark, .agentnb-moves, [disabled]')) continue;
        const under = ground(one), [r, g, b, a] = rgba(getComputedStyle(one).color);
        const ink = over([r, g, b, a * opacity(one)], under);
        const [high, low] = [light(ink), light(under)].sort((a, b) => b - a);
        const name = one.className || one.nodeName;
        found.push([(high + .05) / (low + .05), name, text.slice(0, 30), getComputedStyle(one).color]);
    }
    return found;
}"""
"""For each element with its own words: contrast, class, first words and colour, with transparency applied."""
ENOUGH = 4.5


def faint(found: list[Any]) -> list[Any]:
    """Return the elements with insufficient contrast (WCAG AA)."""
    return [element for element in found if element[0] < ENOUGH]
