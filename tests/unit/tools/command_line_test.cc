// What the command line accepts, and what it says about the rest.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vgpu::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CommandLine, RunTakesOptionsThenTheProgram) {
  const CommandLine line = parse_command_line({"run", "--server", "unix:/s", "--mem", "2G",
                                               "--name", "alice", "--", "./app", "--mem", "-x"});
  EXPECT_EQ(line.command, Command::kRun);
  EXPECT_EQ(line.run.server, "unix:/s");
  EXPECT_EQ(line.run.memory, "2G");
  EXPECT_EQ(line.run.name, "alice");
  EXPECT_TRUE(line.run.check);
  EXPECT_FALSE(line.run.direct);
  EXPECT_THAT(line.run.command, ElementsAre("./app", "--mem", "-x"));
}

TEST(CommandLine, RunNeedsNoDoubleDash) {
  const CommandLine line =
      parse_command_line({"run", "--direct", "app", "--help", "--direct", "--", "y"});
  EXPECT_EQ(line.command, Command::kRun);
  EXPECT_TRUE(line.run.direct);
  EXPECT_THAT(line.run.command, ElementsAre("app", "--help", "--direct", "--", "y"));
}

TEST(CommandLine, OptionsBehindTheProgramAreTheProgramsEvenWhenOursHaveTheSameName) {
  const CommandLine line = parse_command_line({"run", "app", "--mem", "7", "--server", "x"});
  EXPECT_EQ(line.run.memory, "");
  EXPECT_EQ(line.run.server, "");
  EXPECT_THAT(line.run.command, ElementsAre("app", "--mem", "7", "--server", "x"));
}

TEST(CommandLine, StatsWithAndWithoutAFile) {
  EXPECT_EQ(parse_command_line({"run", "--", "app"}).run.stats, "");
  EXPECT_EQ(parse_command_line({"run", "--stats", "--", "app"}).run.stats, "1");
  EXPECT_EQ(parse_command_line({"run", "--stats=/tmp/s.json", "app"}).run.stats, "/tmp/s.json");
  const CommandLine line = parse_command_line({"run", "--stats", "app", "x"});
  EXPECT_EQ(line.run.stats, "1");
  EXPECT_THAT(line.run.command, ElementsAre("app", "x"));
}

TEST(CommandLine, AGuestAsksForAProfileOrAShare) {
  const CommandLine line =
      parse_command_line({"run", "--profile", "small", "--share", "300", "--cap", "12.5%",
                          "--priority=spot", "--token-file", "/t", "--mem", "1G", "--", "app"});
  EXPECT_EQ(line.command, Command::kRun) << line.output;
  EXPECT_EQ(line.run.profile, "small");
  EXPECT_EQ(line.run.share, "300");
  EXPECT_EQ(line.run.cap, "12.5%");
  EXPECT_EQ(line.run.priority, "spot");
  EXPECT_EQ(line.run.token_file, "/t");
  EXPECT_FALSE(line.run.direct);
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--share", "0"},
                                                        {"--share", "10001"},
                                                        {"--share", "much"},
                                                        {"--cap", "0"},
                                                        {"--cap", "101"},
                                                        {"--cap", "5x"},
                                                        {"--priority", "high"}}) {
    const CommandLine wrong = parse_command_line({"run", option, value, "app"});
    EXPECT_EQ(wrong.exit_code, kExitOwnFailure) << option << " " << value;
  }
}

TEST(CommandLine, AProfileOfKernelsIsOfADirectRun) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", "--kernel-profile", "t.txt", "app"},
        {"run", "--kernel-profile=t.txt", "--", "app"}}) {
    const CommandLine line = parse_command_line(arguments);
    EXPECT_EQ(line.run.kernel_profile, "t.txt");
    EXPECT_TRUE(line.run.direct);
    EXPECT_THAT(line.run.command, ElementsAre("app"));
  }
}

TEST(CommandLine, NoCheckSwitchesTheQuestionOff) {
  EXPECT_FALSE(parse_command_line({"run", "--no-check", "app"}).run.check);
}

TEST(CommandLine, RunWithoutAProgramSaysHow) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run"}, {"run", "--"}, {"run", "--mem", "1G", "--"}}) {
    const CommandLine line = parse_command_line(arguments);
    EXPECT_EQ(line.command, Command::kNone);
    EXPECT_EQ(line.exit_code, kExitOwnFailure);
    EXPECT_THAT(line.output, HasSubstr("vgpu run -- ./app"));
  }
}

TEST(CommandLine, BadSizesAreNamed) {
  for (const char* size : {"lots", "-1G", "0", "1X", ""}) {
    const CommandLine line = parse_command_line({"run", "--mem", size, "app"});
    EXPECT_EQ(line.exit_code, kExitOwnFailure) << size;
    EXPECT_THAT(line.output, HasSubstr("--mem")) << size;
  }
  for (const char* size : {"512M", "1.5GiB", "4096", "2 GB"}) {
    EXPECT_EQ(parse_command_line({"run", "--mem", size, "app"}).run.memory, size);
  }
}

TEST(CommandLine, UnknownOptionOfRunIsNotTakenForAProgram) {
  const CommandLine line = parse_command_line({"run", "--memory", "1G", "app"});
  EXPECT_EQ(line.command, Command::kNone);
  EXPECT_EQ(line.exit_code, kExitOwnFailure);
  EXPECT_THAT(line.output, HasSubstr("--memory"));
}

TEST(CommandLine, OtherCommands) {
  const CommandLine info = parse_command_line({"info", "--json", "--server", "/s"});
  EXPECT_EQ(info.command, Command::kInfo);
  EXPECT_TRUE(info.json);
  EXPECT_EQ(info.server, "/s");
  EXPECT_EQ(parse_command_line({"doctor"}).command, Command::kDoctor);
  EXPECT_TRUE(parse_command_line({"stop", "--force"}).force);
  const CommandLine demo = parse_command_line({"demo", "--rounds", "5", "a", "b"});
  EXPECT_EQ(demo.command, Command::kDemo);
  EXPECT_EQ(demo.demo.rounds, 5);
  EXPECT_THAT(demo.demo.programs, ElementsAre("a", "b"));
  EXPECT_TRUE(parse_command_line({"bench", "--quick"}).bench.quick);
  EXPECT_FALSE(parse_command_line({"bench", "--quick"}).bench.softgpu);
  EXPECT_TRUE(parse_command_line({"bench", "softgpu", "--quick"}).bench.softgpu);
  EXPECT_FALSE(parse_command_line({"bench", "softgpu", "--quick"}).bench.network);
  EXPECT_TRUE(parse_command_line({"bench", "network", "--quick"}).bench.network);
}

TEST(CommandLine, MistakesGiveTwo) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{},
                                                    {"fly"},
                                                    {"info", "--xml"},
                                                    {"demo", "one"},
                                                    {"demo", "--rounds", "0"},
                                                    {"bench", "--json"},
                                                    {"bench", "hardgpu"}}) {
    const CommandLine line = parse_command_line(arguments);
    EXPECT_EQ(line.command, Command::kNone);
    EXPECT_EQ(line.exit_code, 2);
    EXPECT_FALSE(line.output.empty());
  }
}

TEST(CommandLine, EveryHelpHasExamples) {
  EXPECT_THAT(parse_command_line({"--help"}).output, HasSubstr("First steps"));
  for (const char* command : {"run", "info", "stop", "doctor", "demo", "bench"}) {
    const CommandLine line = parse_command_line({command, "--help"});
    EXPECT_EQ(line.exit_code, 0);
    EXPECT_EQ(line.command, Command::kNone);
    EXPECT_THAT(line.output, HasSubstr(std::string("vgpu ") + command)) << command;
    EXPECT_THAT(line.output, HasSubstr("Examples:")) << command;
  }
}

TEST(CommandLine, Keys) {
  const std::string key = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
  CommandLine line = parse_command_line({"key", "create", "--server", "--file", "/k"});
  EXPECT_EQ(line.command, Command::kKey);
  EXPECT_EQ(line.key.action, KeyAction::kCreate);
  EXPECT_TRUE(line.key.server);
  EXPECT_FALSE(line.key.replace);
  EXPECT_EQ(line.key.file, "/k");
  EXPECT_EQ(parse_command_line({"key", "show"}).key.action, KeyAction::kShow);
  line = parse_command_line({"key", "authorize", key, "team-a", "--comment", "alice, laptop"});
  EXPECT_EQ(line.key.action, KeyAction::kAuthorize);
  EXPECT_EQ(line.key.key, key);
  EXPECT_EQ(line.key.tenant, "team-a");
  EXPECT_EQ(line.key.comment, "alice, laptop");
  line = parse_command_line({"key", "revoke", "--", "-" + key.substr(1)});
  EXPECT_EQ(line.key.action, KeyAction::kRevoke);
  EXPECT_EQ(line.key.key, "-" + key.substr(1));
  line = parse_command_line({"key", "trust", "tcp://h:1", key});
  EXPECT_EQ(line.key.action, KeyAction::kTrust);
  EXPECT_EQ(line.key.address, "tcp://h:1");
  EXPECT_EQ(line.key.key, key);
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"key"},
                                                {"key", "authorize", key},
                                                {"key", "trust", "tcp://h:1"},
                                                {"key", "eat"}}) {
    EXPECT_EQ(parse_command_line(wrong).exit_code, 2);
  }
}

}  // namespace
}  // namespace vgpu::tools
