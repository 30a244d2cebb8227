"""The engine itself."""

import pytest

from streamling.errors import StreamlingError
from streamling.transforms.script.config import ScriptSettings
from streamling.transforms.script.engine import Cause, Limits, ScriptFailed
from streamling.transforms.script.quickjs import QuickJs
from streamling.transforms.script.transform import engine_for


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "cannot be read"), (b"no wasm", "cannot be read"), (b"\0asm\x01\0\0\0", "is not a runtime of quickjs-rs")],
)
def test_an_invalid_runtime_is_rejected(tmp_path, content, reason):
    path = tmp_path / "runtime.wasm"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StreamlingError, match=reason) as refused:
        engine_for(ScriptSettings(runtime_wasm_file_path=path))
    assert not refused.value.internal
    assert refused.value.remedy == "remove it to use the installed one"


def test_a_terminated_sandbox_can_be_closed():
    sandbox = QuickJs(Limits(16 << 20, 1)).sandbox()
    with pytest.raises(ScriptFailed) as failure:
        sandbox.evaluate("new Array(2 ** 32 - 1).join('x')", 0.1)
    assert failure.value.cause is Cause.TIME
    sandbox.close()


def test_the_guest_has_no_access_to_this_process():
    """A clock, random numbers, an empty environment and no files (WASI), and functions that do nothing."""
    engine = QuickJs(Limits(16 << 20, 1))
    assert {f"{each.module}.{each.name}" for each in engine.guest.imports} == {
        "wasi_snapshot_preview1.random_get",
        "wasi_snapshot_preview1.environ_get",
        "wasi_snapshot_preview1.environ_sizes_get",
        "wasi_snapshot_preview1.clock_time_get",
        "wasi_snapshot_preview1.fd_close",
        "wasi_snapshot_preview1.fd_fdstat_get",
        "wasi_snapshot_preview1.fd_seek",
        "wasi_snapshot_preview1.fd_write",
        "wasi_snapshot_preview1.proc_exit",
        "env.host_interrupt",
        "env.host_module_normalize",
        "env.host_call",
        "env.host_module_load",
    }
