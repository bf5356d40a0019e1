"""Threads that share the work of a call.

The caller is thread 0. Between calls, a worker spins in native code for a while and polls the number of the last
request, because waking a parked thread takes longer than running a small network. Then it parks until its bell rings.
In the control block, fields that are written often have their own cache lines:

| bytes | |
|---|---|
| 0 | number of the last request (i32) |
| 64 | threads (i64), pointers to arena, weights, inputs, outputs; bit mask of the workers to wake; marks (i64); steps |
| 128 + 64 t | worker t: the last request it served (i32), 1 if it is parked (i32), 1 if it has to end (i32) |
| 128 + 64 threads | the marks of the shares (`sharing.py`) |

A call begins when the caller has written the number of its request into every mark. It ends when all shares are
computed, by whichever threads. Short calls that gain nothing from the workers are run by the caller alone, without a
request (`thread_trial.py`).
"""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np

from zeropoint.codegen.llvm.machine import Loaded
from zeropoint.codegen.runtime.thread_trial import ThreadTrial
from zeropoint.codegen.step_table import StepTable, TableHeader
from zeropoint.errors import OptionError
from zeropoint.ir.tensors import Array

PARKED = 1
"""The return value of a worker's native code if it has parked and must wait for its bell."""

SERVE = """
define i32 @zeropoint_serve(ptr %control, i64 %thread) nounwind {
entry:
  %place = mul i64 %thread, 64
  %base = add i64 %place, 128
  %mine = getelementptr i8, ptr %control, i64 %base
  %parked = getelementptr i8, ptr %mine, i64 4
  %ending = getelementptr i8, ptr %mine, i64 8
  store atomic i32 0, ptr %parked seq_cst, align 4
  %place.table = getelementptr i8, ptr %control, i64 120
  %table = load ptr, ptr %place.table, align 8
  %place.most = getelementptr i8, ptr %table, i64 PLACE
  %most = load i64, ptr %place.most, align 8
  br label %wait
wait:
  %spins = phi i64 [ 0, %entry ], [ 0, %work ], [ %more, %relax ]
  %request = load atomic i32, ptr %control seq_cst, align 64
  %served = load i32, ptr %mine, align 64
  %new = icmp ne i32 %request, %served
  br i1 %new, label %work, label %idle
work:
  store i32 %request, ptr %mine, align 64
  call void @run_thread(ptr %control, i64 %thread, i32 %request)
  br label %wait
idle:
  %end = load atomic i32, ptr %ending acquire, align 8
  %stop = icmp ne i32 %end, 0
  br i1 %stop, label %leave, label %count
count:
  %more = add i64 %spins, 1
  %long = icmp ugt i64 %more, %most
  br i1 %long, label %park, label %relax
relax:
  PAUSE
  br label %wait
PARKINGleave:
  ret i32 0
}

define internal void @run_thread(ptr %control, i64 %thread, i32 %request) nounwind {
entry:
  %p0 = getelementptr i8, ptr %control, i64 64
  %threads = load i64, ptr %p0, align 8
  call void @run_as(ptr %control, i64 %thread, i64 %threads, i32 %request)
  ret void
}

define internal void @run_as(ptr %control, i64 %thread, i64 %threads, i32 %request) nounwind {
entry:
  %p1 = getelementptr i8, ptr %control, i64 72
  %p2 = getelementptr i8, ptr %control, i64 80
  %p3 = getelementptr i8, ptr %control, i64 88
  %p4 = getelementptr i8, ptr %control, i64 96
  %p7 = getelementptr i8, ptr %control, i64 120
  %arena = load ptr, ptr %p1, align 8
  %weights = load ptr, ptr %p2, align 8
  %inputs = load ptr, ptr %p3, align 8
  %outputs = load ptr, ptr %p4, align 8
  %table = load ptr, ptr %p7, align 8
  %place = mul i64 %threads, 64
  %base = add i64 %place, 128
  %marks = getelementptr i8, ptr %control, i64 %base
  %wide = zext i32 %request to i64
  %call = shl i64 %wide, 32
  call void @RUN(i64 %thread, i64 %threads, ptr %arena, ptr %weights, ptr %inputs, ptr %outputs, ptr %marks, i64 %call,
                 ptr %table)
  ret void
}

define void @zeropoint_request(ptr %control) nounwind {
entry:
  ; Publish a request to all workers. If workers are parked, their bit mask is written to the control block, because an
  ; exception may prevent the caller from seeing a result. The caller then wakes them and calls `zeropoint_first`.
  %p0 = getelementptr i8, ptr %control, i64 64
  %p6 = getelementptr i8, ptr %control, i64 112
  %threads = load i64, ptr %p0, align 8
  %count = load i64, ptr %p6, align 8
  %last = load atomic i32, ptr %control monotonic, align 64
  %request = add i32 %last, 1
  %number = zext i32 %request to i64
  %call = shl i64 %number, 32
  %rows = mul i64 %threads, 64
  %start = add i64 %rows, 128
  %marks = getelementptr i8, ptr %control, i64 %start
  br label %fill
fill:
  %n = phi i64 [ 0, %entry ], [ %following, %filled ]
  %rest = icmp ult i64 %n, %count
  br i1 %rest, label %filled, label %publish
filled:
  %mark = getelementptr i64, ptr %marks, i64 %n
  store atomic i64 %call, ptr %mark monotonic, align 8
  %following = add i64 %n, 1
  br label %fill
publish:
  %ignored = atomicrmw add ptr %control, i32 1 seq_cst
  br label %head
head:
  %t = phi i64 [ 1, %publish ], [ %next, %rung ]
  %mask = phi i64 [ 0, %publish ], [ %with, %rung ]
  %some = icmp ult i64 %t, %threads
  br i1 %some, label %body, label %done
body:
  %place = mul i64 %t, 64
  %base = add i64 %place, 132
  %parked = getelementptr i8, ptr %control, i64 %base
  %was = atomicrmw xchg ptr %parked, i32 0 seq_cst
RINGING  %next = add i64 %t, 1
  br label %head
done:
  %none = icmp eq i64 %mask, 0
  br i1 %none, label %go, label %wake
go:
  call void @run_thread(ptr %control, i64 0, i32 %request)
  ret void
wake:
  %p5 = getelementptr i8, ptr %control, i64 104
  store i64 %mask, ptr %p5, align 8
  ret void
}

define void @zeropoint_first(ptr %control) nounwind {
entry:
  %p5 = getelementptr i8, ptr %control, i64 104
  store i64 0, ptr %p5, align 8
  %request = load atomic i32, ptr %control monotonic, align 64
  call void @run_thread(ptr %control, i64 0, i32 %request)
  ret void
}

define void @zeropoint_end(ptr %control, i64 %thread) nounwind {
entry:
  ; A worker has to end. Wake it if it is parked.
  %place = mul i64 %thread, 64
  %base = add i64 %place, 132
  %parked = getelementptr i8, ptr %control, i64 %base
  %was = atomicrmw xchg ptr %parked, i32 0 seq_cst
  WAKE
  ret void
}

define void @zeropoint_alone(ptr %control) nounwind {
entry:
  ; The caller runs everything. The workers see no request.
  call void @run_as(ptr %control, i64 0, i64 1, i32 0)
  ret void
}
"""

# Two ways to sleep: at a bell in Python, or, on Linux, in a system call.
_PARKED_IN_PYTHON = """park:
  store atomic i32 1, ptr %parked seq_cst, align 4
  %again = load atomic i32, ptr %control seq_cst, align 64
  %late = icmp ne i32 %again, %served
  br i1 %late, label %unpark, label %sleep
unpark:
  ; The caller may have seen the flag and be about to ring the bell. The thread that clears the flag decides.
  %taken = atomicrmw xchg ptr %parked, i32 0 seq_cst
  %first = icmp eq i32 %taken, 1
  br i1 %first, label %entered, label %sleep
entered:
  store i32 %again, ptr %mine, align 64
  call void @run_thread(ptr %control, i64 %thread, i32 %again)
  ret i32 2
sleep:
  ret i32 1
"""
_RUNG_IN_PYTHON = """  %wide = zext i32 %was to i64
  %bit = shl i64 %wide, %t
  %with = or i64 %mask, %bit
  br label %rung
rung:
"""
_PARKED_IN_KERNEL = """park:
  store atomic i32 1, ptr %parked seq_cst, align 4
  %again = load atomic i32, ptr %control seq_cst, align 64
  %late = icmp ne i32 %again, %served
  br i1 %late, label %awake, label %last
last:
  ; Whoever ends the worker says so before it looks at the flag.
  %over = load atomic i32, ptr %ending seq_cst, align 8
  %told = icmp ne i32 %over, 0
  br i1 %told, label %leave, label %sleep
sleep:
  %slept = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %parked, i64 128, i64 1, ptr null, ptr null, i64 0)
  br label %awake
awake:
  store atomic i32 0, ptr %parked seq_cst, align 4
  br label %wait
"""
"""It sleeps while its flag is 1: a futex, which needs no lock of the interpreter."""
_RUNG_IN_KERNEL = """  %asleep = icmp eq i32 %was, 1
  br i1 %asleep, label %ring, label %rung
ring:
  WAKE
  br label %rung
rung:
  %with = phi i64 [ 0, %body ], [ 0, %ring ]
"""
_WAKE = "%woken = call i64 (i64, ...) @syscall(i64 FUTEX, ptr %parked, i64 129, i64 1, ptr null, ptr null, i64 0)"
FUTEXES = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
"""The numbers of Linux's system call, by architecture."""


def serve_text(run: str, triple: str) -> str:
    """The functions that workers and callers enter, around the function `run`."""
    number = FUTEXES.get(triple.split("-")[0]) if "linux" in triple else None
    if number is None:
        text = SERVE.replace("PARKING", _PARKED_IN_PYTHON).replace("RINGING", _RUNG_IN_PYTHON).replace("WAKE", "")
    else:
        text = SERVE.replace("PARKING", _PARKED_IN_KERNEL).replace("RINGING", _RUNG_IN_KERNEL).replace("WAKE", _WAKE)
        text = text.replace("FUTEX", str(number)) + "declare i64 @syscall(i64, ...)\n"
        text = text.replace("[ 0, %work ], [ %more, %relax ]", "[ 0, %work ], [ %more, %relax ], [ 0, %awake ]")
    return text.replace("@RUN", f"@{run}").replace("PLACE", str(8 * TableHeader.SPINS))


class Workers:
    """The threads of one execution slot. They end when the last reference to this object is dropped."""

    def __init__(
        self, code: Loaded, threads: int, arena: int, weights: int, inputs: int, outputs: int, table: StepTable
    ):
        if not 1 <= threads <= 64:
            raise OptionError(f"found {threads} threads, expected 1 to 64")
        self.threads = threads
        marks, steps = table.marks(threads), table.array
        self._control = np.zeros(128 + 64 * threads + 8 * marks + 64, np.uint8)
        start = -self._control.ctypes.data % 64
        self._address = self._control.ctypes.data + start
        self._inputs, self._outputs = (ctypes.c_void_p * max(1, inputs))(), (ctypes.c_void_p * max(1, outputs))()
        self._fields: Array = self._control[start + 64 : start + 128].view(np.int64)
        pointers = arena, weights, ctypes.addressof(self._inputs), ctypes.addressof(self._outputs)
        self._fields[:] = [threads, *pointers, 0, marks, steps.ctypes.data]
        self._held: list[object] = []
        self._request = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("zeropoint_request"))
        self._first = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("zeropoint_first"))
        self._alone = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("zeropoint_alone"))
        self._trial = ThreadTrial() if threads > 1 else None
        serve = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)(code.address("zeropoint_serve"))
        self._bells: list[SimpleQueue[None]] = [SimpleQueue() for _ in range(threads)]
        rows = [self._address + 128 + 64 * t for t in range(1, threads)]
        self._requests = ctypes.c_int32.from_address(self._address)
        self._served = [ctypes.c_int32.from_address(row) for row in rows]
        self._parked = [ctypes.c_int32.from_address(row + 4) for row in rows]
        self._endings = [self._control[start + 128 + 64 * t + 8 :][:4].view(np.int32) for t in range(threads)]
        parts = (self._control, self._inputs, self._outputs, steps, code)
        for thread in range(1, threads):
            target = threading.Thread(
                target=_serve,
                args=(serve, self._address, thread, self._bells[thread], self._endings[thread], parts),
                daemon=True,
                name=f"zeropoint-{thread}",
            )
            target.start()
        self._end = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address("zeropoint_end"))
        self._share = _Share(self._fields, self._bells, self._first, self._end, self._address, code)
        self._finalizer = weakref.finalize(self, _end, self._share, self._endings, self._held)

    def use(self, arena: int, weights: int) -> None:
        """Use another arena and other weights from now on."""
        self._share.finish()
        self._fields[1:3] = [arena, weights]

    def run(self, inputs: Sequence[int], outputs: Sequence[int], held: object) -> None:
        """Run once, with the addresses of inputs and outputs. `held` keeps their memory alive while it is used.

        A KeyboardInterrupt after the request would leave the workers waiting for the caller's share. So the share is
        computed before the exception propagates. If a second exception interrupts it, the next call computes it.
        """
        self._share.finish()
        self._held[:] = [held]
        self._inputs[: len(inputs)] = inputs
        self._outputs[: len(outputs)] = outputs
        trial = self._trial
        if trial is None:
            self._enter(self._request)
        elif not trial.is_timed:
            self._enter(self._request if trial.is_shared(self._parked) else self._alone)
            trial.ended()
        else:
            start = time.perf_counter()
            self._enter(self._request if trial.is_shared(self._parked) else self._alone)
            trial.ended(time.perf_counter() - start, joined=self._have_joined())
        self._held.clear()

    def _enter(self, code: Callable[[int], None]) -> None:
        try:
            code(self._address)
        finally:
            self._share.finish()

    def _have_joined(self) -> bool:
        """Whether every worker has seen the last request."""
        return all(one.value == self._requests.value for one in self._served)

    def close(self) -> None:
        """End the workers."""
        self._finalizer()


@dataclass
class _Share:
    """The caller's share of a call whose workers are parked.

    `fields` are the i64 of the control block from byte 64 on. Bells are `SimpleQueue`s, because unlike semaphores they
    stay consistent if an exception interrupts them. On Linux, native code wakes the workers, and no bell is rung during
    calls. `code` is held, so that `first` and `end` stay valid until the workers have ended.
    """

    fields: Array
    bells: Sequence[SimpleQueue[None]]
    first: Callable[[int], None]
    end: Callable[[int, int], None]
    address: int
    code: Loaded

    def finish(self) -> None:
        """Wake the parked workers and compute the caller's share, if that has not been done.

        This may be interrupted at any point and repeated. A worker that is woken needlessly parks again.
        """
        asleep = int(self.fields[5])
        if asleep:
            for thread, bell in enumerate(self.bells):
                if asleep >> thread & 1:
                    bell.put(None)
            self.first(self.address)


def _end(share: _Share, endings: Sequence[Array], held: list[object]) -> None:
    share.finish()
    held.clear()
    for thread, (ending, bell) in enumerate(zip(endings, share.bells, strict=True)):
        ending[0] = 1
        bell.put(None)
        if thread:
            share.end(share.address, thread)


def _serve(
    serve: Callable[[int, int], int], address: int, thread: int, bell: SimpleQueue[None], ending: Array, parts: object
) -> None:
    """The main loop of a worker: serve until it parks, then wait for its bell. `parts` keeps the memory alive."""
    del parts
    while not ending[0]:
        if serve(address, thread) == PARKED:
            bell.get()
