// How processes are numbered, and which of them live in one namespace.
// SPDX-License-Identifier: Apache-2.0
#include "server/ownership.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace vgpu::server {
namespace {

TEST(Ownership, ReadsTheInnermostNumber) {
  const PidView plain = parse_status("Name:\tx\nPid:\t77\nNSpid:\t77\nNSpgid:\t70\n");
  EXPECT_EQ(plain.inner, 77);
  EXPECT_EQ(plain.depth, 1);
  const PidView nested = parse_status("Name:\tx\nNSpid:\t900\t31\t5\nNSpgid:\t1\t1\t1\n");
  EXPECT_EQ(nested.inner, 5);
  EXPECT_EQ(nested.depth, 3);
  EXPECT_EQ(parse_status("Name:\tNSpid:\t4\n").depth, 0);  // a name of the process's choice
  EXPECT_EQ(parse_status("").depth, 0);
}

TEST(Ownership, OwnProcess) {
  const PidView self = view_pid(::getpid());
  EXPECT_EQ(self.inner, ::getpid());
  EXPECT_NE(self.space, 0u);
  EXPECT_TRUE(same_space(self, view_pid(::getpid())));
}

TEST(Ownership, WhatIsGoneIsNobodys) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const PidView gone = view_pid(child);
  EXPECT_EQ(gone.depth, 0);
  EXPECT_FALSE(same_space(gone, gone));
}

TEST(Ownership, NamespacesThatCannotBeReadAreOthers) {
  const PidView known{5, 1, 100}, same{6, 1, 100}, other{7, 2, 200};
  EXPECT_TRUE(same_space(known, same));
  EXPECT_FALSE(same_space(known, other));
  EXPECT_TRUE(same_space({5, 1, 0}, {6, 1, 0}));   // the reader's own
  EXPECT_FALSE(same_space({5, 2, 0}, {6, 2, 0}));  // perhaps two containers
  EXPECT_FALSE(same_space({5, 2, 100}, {6, 2, 0}));
  EXPECT_FALSE(same_space({5, 1, 100}, {6, 2, 0}));
}

// A container, as far as process ids go: needs the right to make one.
TEST(Ownership, AnotherNamespaceOfProcesses) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t maker = ::fork();
  if (maker == 0) {
    pid_t inner = ::unshare(CLONE_NEWPID) == 0 ? ::fork() : -1;
    if (inner == 0) {
      ::pause();
      ::_exit(0);
    }
    (void)!::write(ends[1], &inner, sizeof(inner));
    if (inner > 0) (void)::waitpid(inner, nullptr, 0);
    ::_exit(0);
  }
  pid_t inner = -1;
  ASSERT_EQ(::read(ends[0], &inner, sizeof(inner)), static_cast<ssize_t>(sizeof(inner)));
  if (inner > 0) {
    const PidView view = view_pid(inner);
    EXPECT_EQ(view.inner, 1);
    EXPECT_EQ(view.depth, 2);
    EXPECT_FALSE(same_space(view, view_pid(::getpid())));
    ::kill(inner, SIGKILL);
  }
  (void)::waitpid(maker, nullptr, 0);
  if (inner <= 0) GTEST_SKIP() << "no right to make a namespace";
}

}  // namespace
}  // namespace vgpu::server
