// Static objects of what is linked into the library are left alone when the process ends.
// SPDX-License-Identifier: Apache-2.0

// The compiler makes static objects inside its functions when they are first used, so their
// destructors would run before CompileQueue's handler has waited for those who use them. This
// library is never unloaded: only what std::atexit asks for (which has no object) is of use at
// exit.
extern "C" {
int __real___cxa_atexit(void (*handler)(void*), void* object, void* library);

int __wrap___cxa_atexit(void (*handler)(void*), void* object, void* library) {
  return object == nullptr ? __real___cxa_atexit(handler, object, library) : 0;
}
}
