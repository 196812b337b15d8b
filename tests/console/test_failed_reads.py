"""A read that failed is made up for, without anybody's doing."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, WebSocketRoute, expect

from tests.console.conftest import OpenConsole
from tests.support.relay_team import relay_team

LIST = re.compile(r"/api/v1/sessions\?")
BY_THEMSELVES = 2
"""Reads of a list: when it is opened, and when the event stream has begun."""


@pytest.mark.slow
def test_a_list_is_reloaded_after_failed_reads(open_console: OpenConsole) -> None:
    console = open_console(relay_team())
    console.expected = ["ERR_FAILED"]
    console.run("hello", "missed")
    failed: list[str] = []

    def fail(route: Route) -> None:
        if len(failed) == BY_THEMSELVES:
            route.continue_()
            return
        failed.append(route.request.url)
        route.abort()

    console.page.route(LIST, fail)
    console.open("sessions")
    expect(console.page.get_by_role("link", name="missed")).to_be_visible()
    expect(console.page.get_by_role("alert")).to_have_count(0)
    assert len(failed) == BY_THEMSELVES


@pytest.mark.slow
def test_a_list_is_reloaded_when_the_connection_is_back(open_console: OpenConsole) -> None:
    console = open_console(relay_team())
    console.expected = ["503"]
    page = console.page
    console.run("hello", "missed")
    sockets: list[WebSocketRoute] = []
    failed: list[str] = []

    def through(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.connect_to_server()

    def fail(route: Route) -> None:
        failed.append(route.request.url)
        # So long that only the connection can be the reason for another read.
        later = {"Retry-After": "3600"}
        route.fulfill(status=503, headers=later, json={"code": "busy", "detail": "busy"})

    page.route_web_socket(re.compile("/api/v1/events"), through)
    page.reload()
    expect(page.locator(".connection")).to_have_text("Live")
    page.route(LIST, fail)
    with page.expect_response(
        lambda response: bool(LIST.search(response.url)) and len(failed) == BY_THEMSELVES
    ):
        console.open("sessions")
    page.unroute(LIST)
    sockets[-1].close()
    expect(page.get_by_role("link", name="missed")).to_be_visible()
    assert len(sockets) == 2
