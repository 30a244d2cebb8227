"""The files of the console and how they are served."""

from __future__ import annotations

import json
import re
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPResponse
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette

from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.registry import Registry
from streamling.serve.console import app as console_app
from streamling.serve.console import is_console_path, mount_console

STATIC = Path(console_app.__file__).with_name("static")
VENDOR = STATIC / "vendor"
#: addresses that name a format and are never requested
_NAMES = ("http://www.w3.org/",)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    app = Starlette()
    mount_console(app, "fleet")
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def get(url: str, headers: Mapping[str, str] | None = None) -> HTTPResponse | urllib.error.HTTPError:
    """The response, whatever its status."""
    try:
        answer: HTTPResponse = urllib.request.urlopen(urllib.request.Request(url, headers=dict(headers or {})))
    except urllib.error.HTTPError as error:
        return error
    return answer


def test_the_root_leads_to_the_console(address: str) -> None:
    with get(address) as answer:
        assert answer.url == f"{address}/console/"
        assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("path", ["/console/", "/console/js/main.js", "/console/schema.json", "/console/missing"])
def test_every_response_restricts_what_the_browser_loads(address: str, path: str) -> None:
    with get(address + path) as answer:
        headers = answer.headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["/console/%2e%2e/app.py", "/console/..%2fapp.py", "/console/js/../../app.py"])
def test_files_outside_the_console_are_not_served(address: str, path: str) -> None:
    with get(address + path) as answer:
        assert answer.status == 404


def test_the_schema_knows_the_node_types(address: str) -> None:
    with get(f"{address}/console/schema.json") as schema, get(f"{address}/console/settings.json") as settings:
        assert "postgres" in json.dumps(json.load(schema)["$defs"]["sink"])
        assert json.load(settings)["view"] == "fleet"


def test_responses_are_compressed(address: str) -> None:
    with get(f"{address}/console/vendor/codemirror.js", {"accept-encoding": "gzip"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert len(answer.read()) < 200_000


def test_only_paths_of_the_console_need_no_token() -> None:
    assert all(map(is_console_path, ["/", "/console", "/console/", "/console/js/main.js"]))
    assert not any(map(is_console_path, ["/consoles", "/api/v1/pipelines", "/admin/topology", "//console/"]))


def test_nothing_comes_from_another_host() -> None:
    own = [path for path in STATIC.rglob("*") if path.suffix in {".html", ".js", ".css", ".svg"} and path.is_file()]
    for path in (path for path in own if VENDOR not in path.parents):
        found = re.findall(r"(?:https?:)?//[a-z][\w.-]+\.[a-z]+/?", path.read_text(encoding="utf-8"))
        assert [url for url in found if not url.startswith(_NAMES)] == [], path


def test_the_libraries_are_small_and_keep_their_licenses() -> None:
    assert sum(path.stat().st_size for path in VENDOR.iterdir()) < 1_500_000
    licenses = (VENDOR / "LICENSES.txt").read_text(encoding="utf-8")
    for name in ("preact", "htm", "uplot", "@dagrejs/dagre", "@dagrejs/graphlib", "@codemirror/view", "style-mod"):
        assert re.search(rf"^{re.escape(name)} \d", licenses, re.MULTILINE)


def test_every_template_is_a_valid_pipeline_file() -> None:
    listed = json.loads((STATIC / "templates" / "index.json").read_text(encoding="utf-8"))
    files = {path.name for path in (STATIC / "templates").glob("*.yaml")}
    assert {template["file"] for template in listed} == files
    for name in files:
        text = (STATIC / "templates" / name).read_text(encoding="utf-8")
        assert parse_pipeline(text, file=name, registry=Registry.builtin()).sinks
