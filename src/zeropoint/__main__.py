"""`python -m zeropoint` and the script `zeropoint`. From the first import on, Ctrl-C ends them with status 130.

Nothing is imported before Ctrl-C is handled, not even `typing`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


INTERRUPTED = 130
"""The status of `cli/entry.py`, which is not imported yet."""


def run() -> None:
    """Run the command line and end the process."""
    try:
        try:
            _run()
        except SystemExit as end:
            if end.code == INTERRUPTED:
                _end()
            _heed(_leave)
            raise
    except KeyboardInterrupt:
        _leave()


def _run() -> None:
    import signal

    _heed(_leave)
    from zeropoint.cli import main
    from zeropoint.cli.lost_pages import report_lost_pages

    report_lost_pages()
    sys.unraisablehook = _unraisable
    _heed(signal.default_int_handler)
    main(prog_name="zeropoint")


def _heed(handler: Callable[..., object]) -> None:
    """Let a function handle Ctrl-C, unless Ctrl-C is ignored, as in a background job."""
    import atexit
    import signal

    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _leave):
        signal.signal(signal.SIGINT, handler)
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # the first one runs last


def _leave(*_: object) -> None:
    """End the process at once, while there is nothing to clean up. An exception might be lost during imports."""
    try:
        if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] (it may be closed)
            os.write(2, b"zeropoint: interrupted\n")
    finally:
        os._exit(INTERRUPTED)


def _end() -> None:
    """End an interrupted process like `sys.exit`.

    Python would end by the signal if Ctrl-C interrupted code that is executed from text, as in `dataclasses`, even if
    the exception was caught.
    """
    import atexit

    _heed(lambda *_: os._exit(INTERRUPTED))
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] (part of what `sys.exit` leads to)
    os._exit(INTERRUPTED)  # streams are flushed already


def _unraisable(lost: sys.UnraisableHookArgs, /) -> None:
    """Interrupt again if Ctrl-C came during a callback, where Python prints exceptions and drops them."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        import _thread
        import threading

        threading.Timer(0.01, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(lost)


if __name__ == "__main__":
    run()
