from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from grpo_lightning_code.sandbox import Job, Limits, run

LIMITS = Limits(wall_seconds=20.0)


def program(source: str, stdin: bytes = b"", **limits: Any) -> Any:
    return run(Job(source=source, stdin=stdin), Limits(**{"wall_seconds": 20.0, **limits}))


def test_program_gets_its_input_and_its_output_comes_back() -> None:
    outcome = program("import sys; print(sys.stdin.read()[::-1]); print('oops', file=sys.stderr)", b"abc")
    assert (outcome.status, outcome.exit_code) == ("ended", 0)
    assert (outcome.stdout, outcome.stderr) == (b"cba\n", b"oops\n")


def test_input_larger_than_a_pipe_and_input_that_nobody_reads() -> None:
    assert program("import sys; print(len(sys.stdin.read()))", b"x" * 1_000_000).stdout == b"1000000\n"
    assert program("print('done')", b"x" * 1_000_000).stdout == b"done\n"


def test_main_guard_arguments_and_names_are_those_of_a_script() -> None:
    outcome = program("import sys\nif __name__ == '__main__': print(sys.argv, [n for n in globals() if n[0] != '_'])")
    assert outcome.stdout == b"['program.py'] ['sys']\n"


@pytest.mark.parametrize(
    ("source", "status", "detail"),
    [
        ("raise SystemExit(3)", "error", "exit code 3"),
        ("1 / 0", "error", "ZeroDivisionError: division by zero"),
        ("def broken(:", "error", "SyntaxError"),
        ("x = '\0'", "error", "null bytes"),
        ("bytearray(1 << 40)", "memory", "MemoryError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "killed", "signal 11"),
        ("print('x' * 100_000)", "output", "65536 bytes"),
    ],
)
def test_how_a_program_ends(source: str, status: str, detail: str) -> None:
    outcome = program(source)
    assert outcome.status == status
    assert detail in outcome.detail


def test_only_broken_source_is_said_to_be_broken_for_every_test() -> None:
    assert not program("def broken(:").syntax_ok
    assert program("1 / 0").syntax_ok


def test_time_limits() -> None:
    assert program("import time; time.sleep(60)", wall_seconds=0.5).detail == "killed after 0.5 s"
    outcome = program("while True: pass", cpu_seconds=1)
    assert outcome.status == "timeout"
    assert "CPU time" in outcome.detail


def test_a_program_may_start_as_many_processes_as_it_is_allowed() -> None:
    source = "import os\nfor _ in range(3):\n    if os.fork() == 0: os._exit(0)\nprint('three')"
    assert program(source, processes=4).stdout == b"three\n"
    assert "BlockingIOError" in program(source, processes=1).detail
    threads = "import threading\nfor _ in range(3): threading.Thread(target=print, args=('x',)).start()"
    assert program(threads, processes=4).stdout.count(b"x") == 3


def test_its_folder_can_be_used() -> None:
    source = (
        "import tempfile, os\nwith tempfile.NamedTemporaryFile() as f: f.write(b'x'); print(os.path.dirname(f.name))"
    )
    assert program(source).stdout == b"/box\n"
    assert program("open('/tmp/a', 'w').write('b'); print(open('a').read())").stdout == b"b\n"


def test_a_run_knows_nothing_of_the_one_before() -> None:
    program("open('left', 'w').write('x')")
    assert program("import os; print(os.listdir('.'))").stdout == b"['program.py']\n"


def test_surrogates_and_other_letters_in_source_and_output() -> None:
    assert program("print('ä\\u4e2d')").stdout.decode() == "ä\u4e2d\n"
    assert program("x = '\ud800'\nprint(len(x))").status in ("ended", "error")


def test_many_at_once_from_threads() -> None:
    def one(number: int) -> bytes:
        return bytes(program(f"print({number})").stdout)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(24))) == [b"%d\n" % number for number in range(24)]
    assert threading.active_count() < 50


def test_no_descriptor_is_left_open() -> None:
    program("print(1)")
    before = len(os.listdir("/proc/self/fd"))
    for source in ("print(1)", "while True: print('x' * 1000)", "def broken(:"):
        program(source)
    assert len(os.listdir("/proc/self/fd")) == before
