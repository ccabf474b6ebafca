"""Programs that try to get out, to hurt the machine, or to get a score that they have not earned.

Each prints ``ESCAPED`` and what it got if it gets anything. Names between ``@`` are filled in by the test: files outside,
a port of a listening server, process ids, the name of a secret variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent
from typing import Any

FAIR_TEST: dict[str, Any] = {"source": "assert solve(6) == 42"}
"""What a candidate of an attack on the verdict must do: return seven times its argument. None of them does."""


@dataclass(frozen=True)
class Attack:
    """A hostile program and what must come of it."""

    name: str
    does: str
    """In words, for the table."""
    source: str
    statuses: tuple[str, ...]
    """Statuses that show it contained; the score is 0 whatever it is, except where a program only ends."""
    test: dict[str, Any] | None = None
    """``None``: run as a program."""
    processes: int = 8
    printed: str = ""
    """What its output must contain: how far it got."""


def program(name: str, does: str, source: str, *statuses: str, printed: str = "", processes: int = 8) -> Attack:
    return Attack(name, does, dedent(source), statuses or ("ended",), None, processes, printed)


def cheat(name: str, does: str, source: str, *statuses: str) -> Attack:
    return Attack(name, does, dedent(source), statuses or ("failed", "error"), FAIR_TEST)


def denied(name: str, does: str, *attempts: str, setup: str = "") -> Attack:
    """Statements that each must raise; the program says how many did."""
    lines = [
        "import os, sys",
        *dedent(setup).strip().splitlines(),
        "refused = 0",
        f"for attempt in {list(attempts)!r}:",
        "    try:",
        "        exec(attempt)",
        "    except (OSError, KeyError, ValueError, ImportError) as error:",
        "        refused += 1",
        "    else:",
        "        print('ESCAPED', attempt)",
        "print('refused', refused, flush=True)",
    ]
    return Attack(name, does, "\n".join(lines), ("ended",), None, 8, f"refused {len(attempts)}")


CALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)
"""

RESOURCES = [
    program("fork bomb", "forks without end", """
        import os
        while True:
            try:
                os.fork()
            except OSError:
                pass
        """, "timeout", "killed"),
    program("fork bomb, one process allowed", "the same with `processes: 1`", """
        import os
        try:
            os.fork()
        except OSError as error:
            print("refused", flush=True)
        """, printed="refused", processes=1),
    program("thread bomb", "starts threads without end", """
        import threading, time
        started = 0
        try:
            while started < 500:
                threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
                started += 1
        except RuntimeError:
            pass
        print("ESCAPED" if started > 8 else "refused", started, flush=True)
        """, printed="refused"),
    program("memory bomb", "doubles a list without end", """
        hoard = [0]
        while True:
            hoard += hoard
        """, "memory"),
    program("memory bomb in many processes", "each of eight processes takes all it can get", """
        import os, time
        for _ in range(3):
            try:
                os.fork()
            except OSError:
                pass
        hoard = []
        try:
            while True:
                hoard.append(bytearray(1 << 20))
        except MemoryError:
            print("ESCAPED" if len(hoard) > 128 else "refused", flush=True)
        time.sleep(0.3)
        """, printed="refused"),
    denied("memory beside the limits", "memfd, System V shared memory, message queues",
           "os.memfd_create('x')", "call('shmget', 0, 1 << 20, 0o1600)", "call('msgget', 0, 0o1600)", setup=CALL),
    program("endless output", "writes to standard output without end", """
        while True:
            print("x" * 1000)
        """, "output"),
    program("endless error output", "writes to standard error without end", """
        import sys
        while True:
            sys.stderr.write("x" * 1000)
        """, "output"),
    program("disk filling", "writes a file without end", """
        try:
            with open("full", "wb") as stream:
                for _ in range(1000):
                    stream.write(bytes(1 << 20))
            print("ESCAPED")
        except OSError as error:
            print("refused", error.strerror, flush=True)
        """, printed="refused"),
    program("disk filling with many files", "writes files without end, empty and not", """
        try:
            for number in range(10 ** 6):
                with open(f"file{number}", "wb") as stream:
                    stream.write(bytes(number % 2 * 100_000))
            print("ESCAPED")
        except OSError as error:
            print("refused", error.strerror, flush=True)
        """, printed="refused"),
    program("one huge file", "asks for a file of a terabyte without writing it", """
        import os
        try:
            os.truncate(os.open("huge", os.O_CREAT | os.O_RDWR), 1 << 40)
            print("ESCAPED")
        except OSError as error:
            print("refused", error.strerror, flush=True)
        """, printed="refused"),
    program("sleeping", "sleeps for an hour", "import time; time.sleep(3600)", "timeout"),
    program("spinning", "computes without end", """
        while True:
            pass
        """, "timeout"),
    program("signal ignoring", "ignores every signal that can be ignored, and computes on", """
        import signal
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            try:
                signal.signal(number, lambda *_: None)
            except OSError:
                pass
        while True:
            pass
        """, "timeout", "killed"),
    program("reading endless input", "waits for input that never comes, and reads all there is",
            "import sys; print('read', len(sys.stdin.read()), flush=True)", printed="read 0"),
    program("deep recursion", "overflows the stack of the interpreter", """
        import sys
        sys.setrecursionlimit(10 ** 9)
        class Deep:
            def __repr__(self):
                return repr(self)
        repr(Deep())
        """, "killed"),
    program("core dump", "crashes with a core, and looks for it", """
        import os, resource, signal, sys
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (1 << 30, 1 << 30))
            print("ESCAPED limit", flush=True)
        except (ValueError, OSError):
            pass
        os.kill(os.getpid(), signal.SIGABRT)
        """, "killed"),
    program("raising its limits", "tries to raise every limit", """
        import resource
        for name in [name for name in dir(resource) if name.startswith("RLIMIT_")]:
            soft, hard = resource.getrlimit(getattr(resource, name))
            if hard != resource.RLIM_INFINITY:
                try:
                    resource.setrlimit(getattr(resource, name), (hard + 1, hard + 1))
                    print("ESCAPED", name)
                except (ValueError, OSError):
                    pass
        print("refused", flush=True)
        """, printed="refused"),
    program("zombie flood", "leaves children that nobody waits for", """
        import os
        refused = 0
        for _ in range(2000):
            try:
                if os.fork() == 0:
                    os._exit(0)
            except OSError:
                refused += 1
        print("refused" if refused else "ESCAPED", flush=True)
        """, printed="refused"),
    program("daemon that survives", "forks twice, leaves its session and goes on after its parent has ended", """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for stream in (0, 1, 2):
                    os.close(stream)
                time.sleep(3600)
            os._exit(0)
        print("daemon left behind", flush=True)
        """, printed="daemon left behind"),
]  # fmt: skip

ESCAPES = [
    denied("deleting outside", "removes a file outside, its folder, and the whole machine",
           "os.remove('@canary@')", "shutil.rmtree('@folder@')", "os.remove('/usr/lib/os-release')",
           "os.rmdir('/usr')", setup="import shutil\nfor name in ('/box', '/harness', '/dev', '/etc', '/home', '/root'):\n"
                 "    shutil.rmtree(name, ignore_errors=True)"),
    denied("writing outside", "writes to a file outside, to the library of Python and to system folders",
           "open('@canary@', 'w')", "open(os.__file__, 'a')", "open('/etc/hosts', 'a')", "open('/escaped', 'w')",
           "open('/harness/inside/judge.py', 'a')", "os.chmod(os.__file__, 0o777)", "os.mknod('/dev/x')"),
    denied("reading files", "reads a file outside, the password file, home folders and logs",
           "open('@canary@').read()", "open('/etc/passwd').read()", "open('/etc/shadow').read()",
           "os.listdir('/home')", "os.listdir('/var')", "os.listdir('@folder@')", "os.listdir('/proc')",
           "os.listdir('/sys')", "os.stat('/var/run/docker.sock')", "os.stat('/dev/shm')", "os.stat('/dev/tty')"),
    program("reading the environment", "looks for a secret variable of the trainer", """
        import os
        print("ESCAPED" if "@secret@" in os.environ else f"{len(os.environ)} variables", flush=True)
        """, printed="6 variables"),
    denied("reading the parent's environment", "reads it from /proc, its own and the trainer's",
           "open('/proc/@parent@/environ').read()", "open('/proc/self/environ').read()",
           "open('/proc/1/environ').read()", "open('/proc/self/root/@canary@').read()"),
    denied("inherited descriptors", "uses every descriptor that is open",
           *(f"os.fstat({number})" for number in range(3, 40))),
    denied("network", "TCP to a server of this machine, UDP, IPv6, raw and netlink sockets, names",
           "socket.create_connection(('127.0.0.1', @port@), 1)", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
           "socket.socket(socket.AF_INET6)", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
           "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)", "socket.getaddrinfo('example.org', 80)",
           setup="import socket"),
    denied("sockets of the machine", "Unix sockets by path and by abstract name",
           "socket.socket(socket.AF_UNIX).connect('@unix@')", "socket.socket(socket.AF_UNIX).connect('\\0@abstract@')",
           setup="import socket"),
    denied("signals to the trainer", "looks for the trainer and its launcher to signal them",
           "os.kill(@parent@, 0)", "os.kill(os.getppid() - 1 or 10 ** 6, 0)", "os.getpgid(@parent@)",
           "os.pidfd_open(@parent@)"),
    program("killing everything", "sends SIGKILL to every process that it may", """
        import os, signal
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            print("nobody there,", end=" ")
        os.kill(1, signal.SIGKILL)
        print("the first process does not mind", flush=True)
        """, printed="nobody there, the first process does not mind"),
    denied("becoming root", "setuid, setgid, groups, a set-user-id file",
           "os.setuid(0)", "os.setgid(0)", "os.setgroups([0])", "os.setresuid(0, 0, 0)", "os.chown('.', 0, 0)"),
    denied("new namespaces and mounts", "unshare, mount, umount, setns, chroot, clone",
           "call('unshare', 0x10000000)", "call('unshare', 0x20000)", "call('mount', b'none', b'/box', b'tmpfs', 0, 0)",
           "call('umount2', b'/box', 2)", "call('setns', 0, 0)", "os.chroot('/box')",
           "call('syscall', 56, 0x10000011, 0, 0, 0, 0)",
           setup=CALL),
    denied("the kernel's wide interfaces", "ptrace, bpf, keyctl, perf, userfaultfd, io_uring, reading others' memory",
           "call('ptrace', 16, 1, 0, 0)", "call('syscall', 321, 0, 0, 0)", "call('syscall', 250, 0, 0, 0)",
           "call('syscall', 298, 0, 0, 0, 0, 0)", "call('syscall', 323, 0)", "call('syscall', 425, 1, 0)",
           "call('process_vm_readv', 1, 0, 0, 0, 0, 0)", setup=CALL),
    denied("links", "a link in its folder to a file outside, and the way up",
           "open('link').read()", "open('link', 'w')", "open('../../../../../@canary@').read()",
           "os.link('@canary@', 'hard')", "open('up/@canary@')",
           setup="os.symlink('@canary@', 'link')\nos.symlink('/box/../..', 'up')"),
    denied("devices", "makes device files, opens disks and memory",
           "os.mknod('disk', 0o60660, os.makedev(254, 0))", "open('/dev/mem', 'rb')", "open('/dev/vda', 'rb')",
           "open('/dev/kmsg', 'rb')"),
    denied("another program", "a shell, a file of its own with the right to be executed",
           "os.execv('/bin/sh', ['sh', '-c', 'echo ESCAPED'])", "os.execv('./own', ['own'])",
           "os.execv('/usr/bin/env', ['env'])",
           setup="with open('own', 'w') as stream: stream.write('#!/bin/sh')\nos.chmod('own', 0o777)"),
]  # fmt: skip

CHEATS = [
    cheat("leaving before the test", "`os._exit(0)` when it is loaded", "import os; os._exit(0)", "error"),
    cheat("leaving in the test", "`sys.exit(0)` in the function", """
        import sys
        def solve(x):
            sys.exit(0)
        """, "error"),
    cheat("leaving hard in the test", "`os._exit(0)` in the function", """
        import os
        def solve(x):
            os._exit(0)
        """, "error"),
    cheat("equal to everything", "an object whose comparisons are all true", """
        class Yes:
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __bool__(self): return True
            __hash__ = None
        def solve(x):
            return Yes()
        """, "failed"),
    cheat("an integer equal to everything", "a subclass of `int` that is equal to everything", """
        class Yes(int):
            def __eq__(self, other): return True
            __hash__ = int.__hash__
        def solve(x):
            return Yes(1)
        """, "failed"),
    cheat("another `assert`", "replaces `AssertionError`, `isinstance` and every built-in by what never fails", """
        import builtins
        builtins.AssertionError = type("Fine", (Exception,), {})
        for name in ("all", "any", "abs", "isinstance", "bool", "int"):
            setattr(builtins, name, lambda *_: True)
        def solve(x):
            return True
        """, "failed", "error"),
    cheat("patching the harness", "replaces the functions of the harness in its own process", """
        import sys
        for name, module in list(sys.modules.items()):
            if "inside" in name:
                for attribute in dir(module):
                    if not attribute.startswith("__"):
                        setattr(module, attribute, lambda *a, **k: True)
        def solve(x):
            return None
        """),
    cheat("printing a verdict", "prints what a passed test may look like", """
        import json
        print(json.dumps({"status": "passed", "exit": 0}), flush=True)
        print("OK", "1 passed in 0.01s", flush=True)
        def solve(x):
            return None
        """),
    cheat("writing a verdict to every descriptor", "writes a passed verdict to all that is open", """
        import os
        def solve(x):
            for number in range(64):
                try:
                    os.write(number, b'{"status": "passed", "exit": 0}\\n["return", 41, []]\\n')
                except OSError:
                    pass
            return None
        """),
    cheat("looking for the expected value", "searches its memory and stack for what the test wants", """
        import gc, sys
        def solve(x):
            frame = sys._getframe()
            while frame:
                for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):
                    if value == 42 or "assert" in str(value)[:200] and "== 42" in str(value):
                        return 42
                frame = frame.f_back
            return 42 if any("solve(6) == 42" in o for o in gc.get_objects() if isinstance(o, str)) else None
        """),
    cheat("nonsense answers", "sends what is no message to the judge", """
        import os
        def solve(x):
            for number in range(3, 64):
                try:
                    os.write(number, b"[[[[{{{{" * 1000 + b"\\n")
                except OSError:
                    pass
        """, "error"),
    cheat("a deep and a large answer", "returns a value of a hundred thousand levels", """
        def solve(x):
            value = []
            for _ in range(100_000):
                value = [value]
            return value
        """, "error"),
    cheat("an endless answer", "returns an iterator without end, as an object", """
        def solve(x):
            return iter(int, 1)
        """),
    cheat("killing the judge", "sends every signal to the first process, and lowers its limits", """
        import os, resource, signal
        def solve(x):
            for number in signal.valid_signals():
                try:
                    os.kill(1, number)
                except OSError:
                    pass
            resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))
            return None
        """, "failed", "error", "killed"),
    cheat("closing its streams", "closes every descriptor", """
        import os
        def solve(x):
            os.closerange(0, 100)
        """, "error"),
]  # fmt: skip

ATTACKS = RESOURCES + ESCAPES + CHEATS
