"""One visit of the console: a page that remembers everything that went wrong in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, expect

_AXE = (Path(__file__).with_name("vendor") / "axe.min.js").read_text(encoding="utf-8")
#: machines under load are slow, and everything here waits for a condition
_PATIENCE = 30_000

Scheme = Literal["light", "dark"]

expect.set_options(timeout=_PATIENCE)


@dataclass
class Visit:
    """A page of the console at ``address``."""

    page: Page
    address: str
    #: errors in the browser's console, which include violations of the content security policy
    errors: list[str] = field(default_factory=list)
    #: how often the browser has asked whether to leave the page; the answer is yes
    questions: int = 0
    #: requests whose responses have arrived
    finished: list[Request] = field(default_factory=list)

    def open(self, fragment: str = "") -> Page:
        self.page.goto(f"{self.address}/console/{fragment}")
        return self.page

    def leave(self) -> None:
        """Leave the current screen, whatever is lost with it."""
        page = self.open("#/nothing")
        nothing, leave = page.get_by_text("This page does not exist"), page.get_by_role("button", name="Leave without")
        expect(nothing.or_(leave)).to_be_visible()
        if leave.is_visible():
            leave.click()
            expect(nothing).to_be_visible()

    def check(self) -> None:
        """Raise if anything has gone wrong in the page."""
        assert self.errors == [], self.errors

    def violations(self) -> list[str]:
        """What axe finds on the current screen."""
        # evaluated by the debugger, which the content security policy does not restrict
        self.page.evaluate(f"{_AXE}; 0")
        found: list[dict[str, Any]] = self.page.evaluate("axe.run().then((result) => result.violations)")
        return [f"{each['id']}: {json.dumps([node['html'] for node in each['nodes']])[:400]}" for each in found]

    def is_too_wide(self) -> bool:
        """Whether the page scrolls sideways."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))

    def remember_error(self, message: ConsoleMessage) -> None:
        # the browser itself reports every answer with an error status; the tests ask for some of them
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    def answer_dialog(self, dialog: Dialog) -> None:
        if dialog.type == "beforeunload":
            self.questions += 1
            dialog.accept()
        else:
            self.errors.append(f"a script ran: {dialog.message}")
            dialog.dismiss()

    def remember_request(self, request: Request) -> None:
        self.finished.append(request)

    def largest_response(self) -> tuple[int, str]:
        """Bytes of the largest body as it was sent, and its address."""
        return max((request.sizes()["responseBodySize"], request.url) for request in self.finished)


@contextmanager
def visiting(
    browser: Browser,
    address: str,
    *,
    token: str | None = None,
    width: int = 1440,
    height: int = 900,
    scheme: Scheme = "light",
) -> Iterator[Visit]:
    """A page without history; nothing may have gone wrong in it, see `Visit.check`."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.set_default_timeout(_PATIENCE)
    page = context.new_page()
    visit = Visit(page, address)
    page.on("console", visit.remember_error)
    page.on("pageerror", lambda error: visit.errors.append(str(error)))
    page.on("requestfinished", visit.remember_request)
    page.on("dialog", visit.answer_dialog)
    if token is not None:
        page.add_init_script(f"sessionStorage.setItem('streamling.token', {json.dumps(token)})")
    try:
        yield visit
        visit.check()
    finally:
        context.close()
