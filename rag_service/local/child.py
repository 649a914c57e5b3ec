"""Becomes the server: a process that ties its life to its keeper's and then runs the server's command in its place.

In: the keeper's process id and the command, as arguments. Out: nothing; it is replaced. Must not: import anything of
ours, since it is run as a file, by an interpreter that loads no packages.

It is a step of its own, and not `preexec_fn`, because the keeper has threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(arguments: list[str]) -> None:
    keeper, command = int(arguments[0]), arguments[1:]
    # The keeper ignores these, and what is ignored stays ignored across exec.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:  # it died before it could be watched
            sys.exit("the keeper of this server has gone")
    os.execvp(command[0], command)  # noqa: S606 - the command is the product's own, and no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
