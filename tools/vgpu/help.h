// The words of --help: what each subcommand is for, with examples to copy.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_HELP_H_
#define VGPU_TOOLS_VGPU_HELP_H_

namespace vgpu::tools {

inline constexpr char kAbout[] =
    "vGPU lets unmodified CUDA programs share a GPU, or run without one.\n"
    "A server (vgpud) owns the device; a program started with `vgpu run` becomes its guest.";

inline constexpr char kExamples[] =
    "First steps:\n"
    "  vgpu demo                       see it work here, without a GPU and without set-up\n"
    "  vgpud --driver soft &           start a server on the software GPU\n"
    "  vgpu run -- ./my_cuda_program   run a program as its guest\n"
    "  vgpu info                       who is using what\n"
    "  vgpu top                        the same, live\n"
    "  vgpu doctor                     something does not work? start here\n"
    "Each subcommand has its own --help with examples.";

inline constexpr char kRunExamples[] =
    "vgpu run [OPTIONS] [--] program [arguments...]\n"
    "Examples:\n"
    "  vgpu run -- ./vecadd                      at the default server\n"
    "  vgpu run --mem 2G --name alice -- python3 train.py\n"
    "  vgpu run --profile small -- ./vecadd      as the server's configuration has it\n"
    "  vgpu run --share 300 --cap 50 --priority spot -- ./vecadd\n"
    "  vgpu run --devices 1,0 -- ./vecadd        two of the server's devices, in this order\n"
    "  vgpu run --server unix:/tmp/g.sock -- ./vecadd\n"
    "  vgpu run --server unix:/tmp/g.sock,tcp://gpu1:7470 -- ./vecadd   devices of both\n"
    "  vgpu run --stats=/tmp/counts.json -- ./vecadd\n"
    "  vgpu run --direct -- ./vecadd             on the software GPU, without a server\n"
    "  vgpu run --kernel-profile=table.txt -- ./vecadd   the same, and what its kernels did\n"
    "vgpu replaces itself by the program: signals and the exit code are the program's own.\n"
    "Exit codes of vgpu itself: 125 no server or a mistake here, 126 not executable, 127 not "
    "found.\n"
    "By hand it is: LD_PRELOAD=…/guest/libcuda.so.1 VGPU_SERVER=unix:… ./vecadd";

inline constexpr char kInfoExamples[] =
    "Examples:\n"
    "  vgpu info\n"
    "  vgpu info --server unix:/run/vgpu/vgpud.sock\n"
    "  vgpu info --json | python3 -m json.tool\n"
    "Exit code: 0 when a server answers, else 1.";

inline constexpr char kPsExamples[] =
    "Your own guests; root and the server's user see all.\n"
    "Examples:\n"
    "  vgpu ps\n"
    "  vgpu ps --json | jq '.guests[] | {name, used_bytes}'";

inline constexpr char kTopExamples[] =
    "Keys: q quit, s order, r reverse, arrows choose a guest, and of that: m memory, w share, c "
    "cap,\n"
    "p priority, x end its session (these only for root and the server's user).\n"
    "due: what its weight entitles a guest to; used: its part of the device's time; wait: of the "
    "time\n"
    "that passed, what its work waited for a turn; held: what its cap kept it waiting.\n"
    "Examples:\n"
    "  vgpu top\n"
    "  vgpu top --count 10 --interval 5 > log    lines, where output is no terminal";

inline constexpr char kLimitExamples[] =
    "Only root and the server's user may. Less memory than it uses takes nothing away: it gets no "
    "more.\n"
    "Examples:\n"
    "  vgpu limit alice --mem 4G\n"
    "  vgpu limit 12345 --share 200 --cap 30 --priority spot";

inline constexpr char kKillExamples[] =
    "Ends the guest's session, not its process: its CUDA calls fail from then on.\n"
    "Examples:\n"
    "  vgpu kill alice";

inline constexpr char kDrainExamples[] =
    "Examples:\n"
    "  vgpu drain --wait --timeout 600 && vgpu stop\n"
    "  vgpu drain --undo\n"
    "Exit code: 1 when guests still run after the timeout.";

inline constexpr char kStopExamples[] =
    "Examples:\n"
    "  vgpu stop            guests go on; a new vgpud at the same address takes them over\n"
    "  vgpu stop --force    guests are ended too";

inline constexpr char kDoctorExamples[] =
    "Examples:\n"
    "  vgpu doctor\n"
    "  vgpu doctor --server unix:/run/vgpu/vgpud.sock --json\n"
    "Every line is ok, warn or fail, with what to do. Exit code: 0, 1 or 2, by the worst of them.";

inline constexpr char kKeyExamples[] =
    "Between two machines (docs/network.md):\n"
    "  server$ vgpu key create --server              prints the server's public key\n"
    "  guest$  vgpu key create                       prints the guest's public key\n"
    "  guest$  vgpu key trust tcp://gpu-host:7470 'SERVERS-PUBLIC-KEY'\n"
    "  server$ vgpu key authorize 'GUESTS-PUBLIC-KEY' team-a --comment 'alice, laptop'\n"
    "  server$ vgpud --listen tcp://0.0.0.0:7470\n"
    "  guest$  vgpu run --server tcp://gpu-host:7470 -- ./my_cuda_program\n"
    "  server$ vgpu key revoke team-a                ends that tenant's guests\n"
    "Files: guest.key, known_servers, server.key and authorized_keys in ~/.config/vgpu, else in\n"
    "/etc/vgpu. Environment: VGPU_KEY (file), VGPU_SERVER_KEY (public key).";

inline constexpr char kDemoExamples[] =
    "Starts a server of its own on the software GPU in a temporary folder, runs two programs "
    "built\n"
    "by nvcc directly, then as guests one after the other, then as two guests at once; compares\n"
    "their output and stops everything it started.\n"
    "Examples:\n"
    "  vgpu demo\n"
    "  vgpu demo --rounds 10 histogram mandelbrot\n"
    "  vgpu demo ./my_program ./my_other_program";

inline constexpr char kBenchExamples[] =
    "Starts servers of its own, on the software GPU and on a driver that does nothing, and "
    "measures\n"
    "beside them what the same things cost raw (ring, futex, memcpy) in the same run. How to read "
    "the\n"
    "table: docs/measuring.md.\n"
    "Examples:\n"
    "  vgpu bench\n"
    "  vgpu bench --quick --json bench.json\n"
    "  vgpu bench softgpu --quick       the software GPU beside C++ on the same cores\n"
    "  vgpu bench network               a channel between hosts, on loopback, beside libfabric\n"
    "  vgpu bench sharing --quick       shares, caps, latency and what they cost, beside fifo and\n"
    "                                   round robin";

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_HELP_H_
