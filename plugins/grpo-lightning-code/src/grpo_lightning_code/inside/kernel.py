"""System calls that Python's standard library lacks, each raising ``OSError`` with what was tried."""

from __future__ import annotations

import ctypes
import os
import struct

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 0x1, 0x2, 0x4, 0x8, 0x20
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x02000000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWTIME = 0x10000000, 0x20000000, 0x40000000, 0x80
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38
PR_SET_THP_DISABLE, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 41, 47, 4
SECCOMP_MODE_FILTER = 2

_MOUNT_SETATTR = 442  # the same number on every architecture
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV = 0x1, 0x2, 0x4

_libc = ctypes.CDLL(None, use_errno=True)


def _check(returned: int, tried: str) -> None:
    if returned < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{tried}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """Move this process, or its later children, into new namespaces."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """``mount(2)``."""
    arguments = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _check(_libc.mount(*arguments), f"mount {source} on {target}")


def read_only(target: str) -> None:
    """Make a mount and every mount below it read-only, without set-user-id programs."""
    wanted = _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID
    attributes = struct.pack("=QQQQ", wanted, 0, 0, 0)
    number, size = ctypes.c_long(_MOUNT_SETATTR), ctypes.c_size_t(len(attributes))
    path, flags = target.encode(), ctypes.c_uint(_AT_RECURSIVE)
    _check(_libc.syscall(number, ctypes.c_int(_AT_FDCWD), path, flags, attributes, size), f"mount_setattr {target}")


def pivot_root(new: str, old: str) -> None:
    """Make ``new`` the root folder; the former root is then at ``old``."""
    number = _PIVOT_ROOT[os.uname().machine]
    _check(_libc.syscall(ctypes.c_long(number), new.encode(), old.encode()), "pivot_root")


def detach(target: str) -> None:
    """Take a mount and all below it away from the tree."""
    _check(_libc.umount2(target.encode(), ctypes.c_int(MNT_DETACH)), f"umount {target}")


def set_host_name(name: str) -> None:
    """``sethostname(2)``."""
    _check(_libc.sethostname(name.encode(), ctypes.c_size_t(len(name))), "sethostname")


def prctl(option: int, argument: int = 0, tried: str = "prctl") -> None:
    """``prctl(2)`` with one argument."""
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(argument), zero, zero, zero), tried)


def drop_capabilities() -> None:
    """Empty every capability set of this process, the bounding set too."""
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability, "drop a capability")
        except OSError:  # beyond the last one that this kernel knows
            break
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, "clear ambient capabilities")


def give_up_capabilities() -> None:
    """Clear the effective, permitted and inheritable capabilities."""
    header = struct.pack("=Ii", 0x20080522, 0)
    _check(_libc.capset(header, struct.pack("=6I", *[0] * 6)), "capset")


def install_filter(program: bytes) -> None:
    """Install a seccomp filter, given as packed ``sock_filter`` instructions."""
    code = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    holder = ctypes.create_string_buffer(fprog, len(fprog))
    zero = ctypes.c_ulong(0)
    mode, address = ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.c_ulong(ctypes.addressof(holder))
    _check(_libc.prctl(ctypes.c_int(PR_SET_SECCOMP), mode, address, zero, zero), "seccomp")
