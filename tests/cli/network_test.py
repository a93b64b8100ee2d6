#!/usr/bin/env python3
# Two "machines" and the commands of docs/network.md between them, up to an unmodified program.
# SPDX-License-Identifier: Apache-2.0
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

from harness import BUILD, environment, expect, json_of, until, vgpu

SOFT = BUILD / "lib/softgpu/libcuda.so.1"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Machines:
    """Configuration folders of a server's and a guest's machine, and one address between them."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.local = f"unix:{folder}/vgpud.sock"

    def config(self, machine):
        return {"XDG_CONFIG_HOME": str(self.folder / machine)}

    def on(self, machine, *arguments, **more):
        return vgpu(*arguments, **self.config(machine), **more)

    def start_server(self, log):
        return subprocess.Popen(
            [str(BUILD / "bin/vgpud"), "--listen", self.local, "--listen", self.address, "--driver",
             "soft", "--server-key", str(self.folder / "server/vgpu/server.key"),
             "--authorized-keys", str(self.folder / "server/vgpu/authorized_keys")],
            env=environment(VGPU_SOFT_DRIVER=str(SOFT), **self.config("server")),
            stdout=log, stderr=log, start_new_session=True)


def keys(machines):
    files = {"server": machines.folder / "server/vgpu/server.key",
             "guest": machines.folder / "guest/vgpu/guest.key"}
    made = {"server": machines.on("server", "key", "create", "--server", "--file",
                                  str(files["server"])),
            "guest": machines.on("guest", "key", "create")}
    for machine, result in made.items():
        expect(result.returncode == 0 and len(result.stdout.strip()) == 40,
               f"{machine}: key create prints the public key", result)
        expect(files[machine].stat().st_mode & 0o777 == 0o600, f"{machine}: the file is its own's")
        again = machines.on(machine, "key", "create", "--file", str(files[machine]))
        expect(again.returncode == 1 and "is there already" in again.stderr,
               f"{machine}: a key is not replaced by accident", again)
    shown = machines.on("guest", "key", "show")
    expect(shown.stdout == made["guest"].stdout, "key show prints the same", shown)
    return {machine: result.stdout.strip() for machine, result in made.items()}


def get_in(machines, public):
    """Nothing works before the other side's key is known on both sides."""
    info = machines.on("guest", "info", "--server", machines.address)
    expect(info.returncode == 1 and "is not known" in info.stderr,
           "a server whose key is not known is not spoken to", info)
    trust = machines.on("guest", "key", "trust", machines.address, public["server"])
    expect(trust.returncode == 0, "key trust", trust)
    info = machines.on("guest", "info", "--server", machines.address)
    expect(info.returncode == 1 and "not admitted" in info.stderr and
           "vgpu key authorize" in info.stderr, "a guest whose key is not admitted is told", info)
    wrong = machines.on("server", "key", "authorize", "short", "team-a")
    expect(wrong.returncode == 1 and "is not a public key" in wrong.stderr, "no key, no entry",
           wrong)
    admit = machines.on("server", "key", "authorize", public["guest"], "team-a", "--comment",
                        "the other machine", "--file",
                        str(machines.folder / "server/vgpu/authorized_keys"))
    expect(admit.returncode == 0, "key authorize", admit)
    info = machines.on("guest", "info", "--json", "--server", machines.address)
    expect(info.returncode == 0 and json_of(info)["devices"], "the server tells its devices", info)


def doctor(machines):
    found = machines.on("guest", "doctor", "--json", "--server", machines.address)
    verdicts = {each["what"]: each["verdict"] for each in json_of(found)["findings"]}
    for what in ("network plug-in", "guest key", "server's key", "server"):
        expect(verdicts.get(what) == "ok", f"doctor: {what}", found)
    key = machines.folder / "guest/vgpu/guest.key"
    key.chmod(0o644)
    found = machines.on("guest", "doctor", "--server", machines.address)
    expect(found.returncode == 2 and "chmod 600" in found.stdout, "doctor: an open key file", found)
    key.chmod(0o600)


def program(machines):
    app = BUILD / "tests/apps/vecadd"
    if not app.exists():
        print("skipped: no nvcc, no vecadd")
        return
    alone = machines.on("guest", "run", "--direct", "--", str(app))
    remote = machines.on("guest", "run", "--server", machines.address, "--", str(app))
    expect(remote.returncode == 0 and remote.stdout == alone.stdout,
           "an unmodified program says the same over the network", remote)
    expect(remote.stderr == "", "and nothing else", remote)
    clear = machines.on("guest", "run", "--no-check", "--server", machines.address, "--", str(app),
                        VGPU_REQUIRE_ENCRYPTION="1")
    expect(clear.returncode != 0 and "encrypt" in clear.stderr, "who wants encryption is refused",
           clear)


def revoked(machines):
    """A program that waits is ended when its key is revoked."""
    app = BUILD / "tests/apps/vecadd"
    gone = machines.on("server", "key", "revoke", "team-a", "--file",
                       str(machines.folder / "server/vgpu/authorized_keys"))
    expect(gone.returncode == 0, "key revoke", gone)
    if app.exists():
        run = machines.on("guest", "run", "--no-check", "--server", machines.address, "--",
                          str(app))
        expect(run.returncode != 0 and "does not admit" in run.stderr, "a revoked key is refused",
               run)
    info = machines.on("server", "info", "--json", "--server", machines.local)
    use = json_of(info)["networks"][0]
    expect(use["address"] == machines.address and use["strangers"] >= 1, "info tells of the gate",
           info)


def main():
    with tempfile.TemporaryDirectory(prefix="vgpu-network-") as folder:
        machines = Machines(folder)
        public = keys(machines)
        with open(f"{folder}/log", "w+") as log:
            server = machines.start_server(log)
            try:
                until(lambda: server.poll() is not None or json_of(
                    machines.on("server", "info", "--json", "--server", machines.local)
                ).get("networks"), "the gate")
                for step in (lambda m: get_in(m, public), doctor, program, revoked):
                    step(machines)
            finally:
                if server.poll() is None:
                    server.send_signal(signal.SIGTERM)
                    server.wait(60)
                log.seek(0)
                sys.stderr.write(log.read())
        expect(server.returncode == 0, f"vgpud ended with {server.returncode}")


if __name__ == "__main__":
    main()
