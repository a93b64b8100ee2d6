// Keys and pictures by termios and ANSI sequences.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/terminal.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace vgpu::tools {
namespace {

constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l\x1b[2J";  // the other screen, no cursor, empty
constexpr char kLeave[] = "\x1b[?25h\x1b[?1049l";
constexpr char kHome[] = "\x1b[H", kRestOfLine[] = "\x1b[K", kRestOfScreen[] = "\x1b[J";
constexpr int kEscapeMs = 30;  // the rest of a sequence comes at once, or Escape was pressed

volatile sig_atomic_t g_ending = 0;  // a signal handler reaches nothing else

void end(int) { g_ending = 1; }
void wake(int) {}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;  // without SA_RESTART: poll() comes back
  (void)sigaction(signal, &action, nullptr);
}

void write_all(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
    if (written > 0) done += static_cast<size_t>(written);
  }
}

bool wait_for_input(int timeout_ms) {
  pollfd entry{STDIN_FILENO, POLLIN, 0};
  return ::poll(&entry, 1, timeout_ms) > 0;
}

}  // namespace

bool Terminal::there() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 && kind != nullptr &&
         std::strcmp(kind, "dumb") != 0;
}

bool Terminal::utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    return strcasestr(value, "utf-8") != nullptr || strcasestr(value, "utf8") != nullptr;
  }
  return false;
}

Terminal::Terminal() {
  (void)::tcgetattr(STDIN_FILENO, &before_);
  termios keys = before_;
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  keys.c_cc[VMIN] = 1;
  keys.c_cc[VTIME] = 0;
  (void)::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGQUIT}) handle(signal, end);
  handle(SIGWINCH, wake);
  write_all(kEnter);
}

Terminal::~Terminal() {
  write_all(kLeave);
  (void)::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

void Terminal::size(size_t* columns, size_t* lines) const {
  winsize window{};
  const bool known =
      ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 && window.ws_row > 0;
  *columns = known ? window.ws_col : 80;
  *lines = known ? window.ws_row : 24;
}

void Terminal::show(const std::string& picture) const {
  std::string text = kHome;
  for (const char c : picture) {
    if (c == '\n') text += kRestOfLine;
    text += c;  // the terminal makes a new line of it
  }
  write_all(text + kRestOfLine + kRestOfScreen);
}

int Terminal::key(int timeout_ms) {
  if (g_ending != 0) return kKeyEnd;
  if (!wait_for_input(timeout_ms)) return g_ending != 0 ? kKeyEnd : kKeyNone;
  unsigned char byte = 0;
  const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return kKeyEnd;
  if (got < 0) return kKeyNone;
  if (byte == 3 || byte == 4) return kKeyEnd;  // Ctrl-C, Ctrl-D
  if (byte != 0x1b || !wait_for_input(kEscapeMs)) return byte;
  char rest[2] = {};
  if (::read(STDIN_FILENO, rest, 1) != 1 || !wait_for_input(kEscapeMs)) return 0x1b;
  if (::read(STDIN_FILENO, rest + 1, 1) != 1) return 0x1b;
  return rest[1] == 'A' ? kKeyUp : rest[1] == 'B' ? kKeyDown : kKeyNone;
}

}  // namespace vgpu::tools
