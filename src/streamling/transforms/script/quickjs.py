"""QuickJS in WebAssembly: the guest of the `quickjs-rs` wheel, run by wasmtime.

The wheel's own host is not used, for measured reasons:

- it compiles the guest at every start (1 s of CPU); with wasmtime's cache on disk it takes 20 ms;
- every few thousand instructions it calls Python to check the time limit, and has to wait for the interpreter's lock
  each time; here a few lines of WebAssembly check the clock;
- it cannot end a loop inside a built-in function, such as ``Array.prototype.includes`` on an object of length 2**53;
  wasmtime's epochs end anything.

The guest has no access to this process: its imports are the clock, random numbers, and functions that do nothing.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import wasmtime

from streamling.errors import StreamlingError
from streamling.transforms.script.engine import Cause, Limits, ScriptFailed, Value

#: What the guest imports besides WASI. There are no host functions and no modules; `host_interrupt` is called every few
#: thousand instructions and returns whether the deadline that `arm` has set has passed.
_HOST = """
(module
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (global $deadline (mut i64) (i64.const -1))
  (func $now (result i64)
    (drop (call $clock (i32.const 1) (i64.const 1000000) (i32.const 0)))
    (i64.load (i32.const 0)))
  (func (export "arm") (param i64) (global.set $deadline (i64.add (call $now) (local.get 0))))
  (func (export "host_interrupt") (result i32) (i64.ge_u (call $now) (global.get $deadline)))
  (func (export "host_call") (param i32 i32 i32 i32 i32) (result i32) (i32.const -1))
  (func (export "host_module_normalize") (param i32 i32 i32 i32 i32) (result i32) (i32.const 0))
  (func (export "host_module_load") (param i32 i32 i32) (result i32) (i32.const 0)))
"""
#: seconds after the limit at which a call is ended that does not check the time
_GRACE = 0.5
#: growth of a sandbox beyond its start at which `QuickJsSandbox.restore` gives it up: its memory cannot shrink
_MOST_GROWTH_BYTES = 8 << 20
#: WebAssembly memory that does not belong to the script: the interpreter itself and exchanged data
_OVERHEAD_BYTES = 16 << 20

_OK, _THROWN = 0, 1
#: exports that identify a guest of quickjs-rs
_NEEDED = frozenset({"eval_code", "call_function", "new_arraybuffer", "set_memory_limit"})


class QuickJs:
    """The compiled guest. Every lane has its own, so that ending a call in one does not affect another."""

    def __init__(self, limits: Limits, guest: Path | None = None) -> None:
        self.limits = limits
        self.engine = wasmtime.Engine(_config())
        self.guest = _compiled(self.engine, guest)
        self.host = wasmtime.Module(self.engine, _HOST)

    def sandbox(self) -> QuickJsSandbox:
        return QuickJsSandbox(self)


def _config() -> wasmtime.Config:
    config = wasmtime.Config()
    config.epoch_interruption = True
    with suppress(wasmtime.WasmtimeError):  # no cache folder: every start compiles
        config.cache = True
    return config


def _compiled(engine: wasmtime.Engine, path: Path | None) -> wasmtime.Module:
    if path is None:
        return wasmtime.Module(engine, (files("quickjs_rs") / "_guest.wasm").read_bytes())
    setting = f"wasm_script.runtime_wasm_file_path is '{path}'"
    remedy = "remove it to use the installed one"
    try:
        module = wasmtime.Module(engine, path.read_bytes())
    except (OSError, wasmtime.WasmtimeError) as error:
        raise StreamlingError.user(f"{setting}, which cannot be read", cause=error, remedy=remedy) from error
    if not {export.name for export in module.exports} >= _NEEDED:
        raise StreamlingError.user(f"{setting}, which is not a runtime of quickjs-rs", remedy=remedy)
    return module


class QuickJsSandbox:
    """One instance of the guest with its own heap. Values are handles, small numbers."""

    def __init__(self, engine: QuickJs) -> None:
        self._engine = engine
        self._store = store = wasmtime.Store(engine.engine)
        store.set_wasi(wasmtime.WasiConfig())
        store.set_limits(memory_size=engine.limits.memory_bytes + _OVERHEAD_BYTES)
        store.set_epoch_deadline(1)
        linker = wasmtime.Linker(engine.engine)
        linker.define_wasi()
        host = linker.instantiate(store, engine.host)
        linker.define_instance(store, "env", host)
        self._host: Any = host.exports(store)
        self._exports: Any = linker.instantiate(store, engine.guest).exports(store)
        self._memory: Any = self._exports["memory"]
        self._do("set_memory_limit", engine.limits.memory_bytes)
        self._out = self._do("qjs_alloc", 4)

    def evaluate(self, source: str, seconds: float) -> Value:
        with self._within(seconds), self._bytes(source.encode()) as (at, size):
            return self._result(self._do("eval_code", at, size, self._out))

    def apply(self, function: Value, arguments: Sequence[Value | str], seconds: float) -> Value:
        with self._within(seconds):
            return self._call(function, [self._string(a.encode()) if isinstance(a, str) else a for a in arguments])

    def exchange(self, function: Value, data: bytes, text: bytes, seconds: float) -> tuple[bytes, str]:
        with self._within(seconds):
            arguments = [self._buffer(data), self._string(text)]
            result = self._call(function, arguments)
            first, second = self._item(result, 0), self._item(result, 1)
            found = self._take_result("get_arraybuffer", first), self._take_result("get_string", second).decode()
            for handle in (*arguments, first, second, result):
                self._do("free_value", handle)
            return found

    def save(self) -> None:
        size = self._memory.data_len(self._store)
        self._saved = bytes(self._memory.read(self._store, 0, size))

    def restore(self) -> bool:
        # The guest keeps everything in its memory: between calls, its only global variable has its first value.
        size, start = len(self._saved), ctypes.addressof(self._memory.data_ptr(self._store).contents)
        grown = self._memory.data_len(self._store) - size
        if grown > _MOST_GROWTH_BYTES:
            return False
        ctypes.memmove(start, self._saved, size)
        ctypes.memset(start + size, 0, grown)
        return True

    def close(self) -> None:
        self._store.close()

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        """Enforce the time limit twice: the interpreter stops itself, and wasmtime ends calls that do not."""
        self._store.set_epoch_deadline(1)
        self._host["arm"](self._store, int(max(0.0, seconds) * 1e9))
        watchdog = threading.Timer(max(0.0, seconds) + _GRACE, self._engine.engine.increment_epoch)
        watchdog.daemon = True
        watchdog.start()
        try:
            yield
        except wasmtime.Trap as trap:
            raise _trap_failure(trap) from None
        except wasmtime.WasmtimeError as error:
            raise ScriptFailed(Cause.BROKEN, str(error)) from None
        finally:
            watchdog.cancel()

    def _do(self, name: str, *arguments: int) -> Any:
        return self._exports[name](self._store, *arguments)

    def _call(self, function: int, arguments: Sequence[int]) -> int:
        this = self._do("new_undefined")
        with self._bytes(struct.pack(f"<{len(arguments)}i", *arguments)) as (at, _):
            return self._result(self._do("call_function", function, this, at, len(arguments), self._out))

    def _result(self, status: int) -> int:
        if status == _OK:
            return self._handle()
        raise self._thrown() if status == _THROWN else ScriptFailed(Cause.BROKEN, f"the interpreter returned {status}")

    def _thrown(self) -> ScriptFailed:
        self._do("last_exception", self._out)
        error = self._handle()
        name, message, stack = (self._property(error, key) for key in ("name", "message", "stack"))
        causes = {("InternalError", "interrupted"): Cause.TIME, ("InternalError", "out of memory"): Cause.MEMORY}
        return ScriptFailed(causes.get((name, message), Cause.THROWN), message, name=name, stack=stack)

    # ── values ───────────────────────────────────────────────────────────────────────────────────────────────

    def _handle(self) -> int:
        return int.from_bytes(self._memory.read(self._store, self._out, self._out + 4), "little", signed=True)

    @contextmanager
    def _bytes(self, data: bytes) -> Iterator[tuple[int, int]]:
        at = self._do("qjs_alloc", len(data))
        if at == 0 and data:
            raise ScriptFailed(Cause.MEMORY, "out of memory")
        self._memory.write(self._store, data, at)
        yield at, len(data)
        self._do("qjs_free", at, len(data))

    def _string(self, text: bytes) -> int:
        with self._bytes(text) as (at, size):
            return int(self._do("new_string", at, size))

    def _buffer(self, data: bytes) -> int:
        with self._bytes(data) as (at, size):
            return self._result(self._do("new_arraybuffer", at, size, self._out))

    def _item(self, array: int, index: int) -> int:
        return self._result(self._do("get_index", array, index, self._out))

    def _property(self, value: int, name: str) -> str:
        with self._bytes(name.encode()) as (at, size):
            if self._do("get_prop", value, at, size, self._out) != _OK:
                return ""
        try:
            return self._take_result("get_string", self._handle()).decode()
        except ScriptFailed:
            return ""

    def _take_result(self, getter: str, value: int) -> bytes:
        if self._do(getter, value) != _OK:
            raise ScriptFailed(Cause.BROKEN, "the sandbox returned a value of an unexpected type")
        at, size = self._do("qjs_last_ptr"), self._do("qjs_last_len")
        found = bytes(self._memory.read(self._store, at, at + size))
        self._do("qjs_result_free")
        return found


def _trap_failure(trap: wasmtime.Trap) -> ScriptFailed:
    match trap.trap_code:
        case wasmtime.TrapCode.INTERRUPT:
            return ScriptFailed(Cause.TIME, "interrupted")
        case wasmtime.TrapCode.STACK_OVERFLOW | wasmtime.TrapCode.MEMORY_OUT_OF_BOUNDS:
            return ScriptFailed(Cause.STACK, "stack overflow")
        case wasmtime.TrapCode.UNREACHABLE:
            # the interpreter aborts if it has no memory for something essential
            return ScriptFailed(Cause.MEMORY, "out of memory")
    return ScriptFailed(Cause.BROKEN, str(trap).partition("\n")[0])
