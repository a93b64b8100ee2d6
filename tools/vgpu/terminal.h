// A terminal that one program has for itself for a while.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_TERMINAL_H_
#define VGPU_TOOLS_VGPU_TERMINAL_H_

#include <termios.h>

#include <cstddef>
#include <string>

namespace vgpu::tools {

// Keys that are no characters.
enum Key : int { kKeyNone = -1, kKeyUp = 1000, kKeyDown, kKeyEnd };

// Switches standard input and output to single keys and a screen of their own; the destructor gives
// back what was there. Only ANSI sequences, so no terminal library. One at a time.
class Terminal {
 public:
  // Whether both ends are terminals that know ANSI sequences.
  static bool there();
  // Whether it shows more than ASCII.
  static bool utf8();

  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void size(size_t* columns, size_t* lines) const;
  // Draws over what is there.
  void show(const std::string& picture) const;
  // The next key within timeout_ms; kKeyNone when there was none or the size has changed, kKeyEnd
  // when the program is asked to end.
  int key(int timeout_ms);

 private:
  termios before_{};
};

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_TERMINAL_H_
