// Key files, the plug-in, and what they lack.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/doctor_network.h"

#include <unistd.h>

#include "net/control/authorized_keys.h"
#include "net/control/keys.h"
#include "net/control/small_file.h"
#include "protocol/transport/connect.h"

namespace vgpu::tools {
namespace {

std::string problem_of(const Status& status) { return status.ok() ? "" : status.text(); }

// Of a key file; empty `path` when there is none.
void look_at_key(std::string* path, std::string* problem) {
  const Result<net::KeyPair> pair = net::read_key_file(*path);
  if (!pair.ok() && pair.status().code() == StatusCode::kNotFound) path->clear();
  *problem = problem_of(pair.status());
}

}  // namespace

NetworkFacts gather_network_facts(const std::string& server, const Places& places) {
  NetworkFacts facts;
  facts.plugin = places.net_plugin;
  if (!facts.plugin.empty()) facts.plugin_error = load_error(facts.plugin);
  const Result<protocol::Address> address =
      server.empty() ? protocol::default_address() : protocol::parse_address(server);
  facts.remote = address.ok() && address->kind == protocol::Address::Kind::kTcp;
  if (facts.remote) {
    facts.guest_key = net::guest_key_path();
    facts.guest_key_problem = problem_of(net::read_key_file(facts.guest_key).status());
    facts.server_key_problem = problem_of(net::known_server_key(*address).status());
  }
  const bool root = ::geteuid() == 0;
  facts.own_key = net::find_config(net::kServerKeyFile, root);
  look_at_key(&facts.own_key, &facts.own_key_problem);
  facts.authorized = net::find_config(net::kAuthorizedKeysFile, root);
  const Result<std::string> text = net::read_small_file(facts.authorized, net::Trust::kWrite);
  if (!text.ok() && text.status().code() == StatusCode::kNotFound) facts.authorized.clear();
  facts.authorized_problem = problem_of(text.status());
  std::vector<std::string> faults;
  if (text.ok()) facts.admitted = net::parse_authorized_keys(*text, &faults).size();
  if (!faults.empty()) facts.authorized_problem = facts.authorized + ": " + faults[0];
  return facts;
}

std::vector<Finding> judge_network(const NetworkFacts& facts) {
  std::vector<Finding> findings;
  const Verdict serious = facts.remote ? Verdict::kFail : Verdict::kWarn;
  if (facts.plugin.empty() || !facts.plugin_error.empty()) {
    findings.push_back({serious, "network plug-in",
                        facts.plugin.empty() ? "is not beside the guest library"
                                             : "does not load: " + facts.plugin_error,
                        "needed for servers like tcp://host:port only; its library is libzmq5"});
  } else {
    findings.push_back({Verdict::kOk, "network plug-in", facts.plugin + " loads", ""});
  }
  const auto file = [&](const char* what, const std::string& text, const std::string& problem,
                        const char* advice) {
    if (problem.empty()) {
      findings.push_back({Verdict::kOk, what, text, ""});
    } else {
      findings.push_back({Verdict::kFail, what, problem, advice});
    }
  };
  if (facts.remote) {
    file("guest key", facts.guest_key, facts.guest_key_problem,
         "make one with vgpu key create, and give its public half to the server's administrator");
    file("server's key", "is known", facts.server_key_problem,
         "ask the server's administrator for what vgpu key show --server prints there");
  }
  if (!facts.own_key.empty()) {
    file("own server key", facts.own_key, facts.own_key_problem,
         "vgpud does not listen on tcp:// with it");
  }
  if (!facts.authorized.empty()) {
    file("authorised keys", facts.authorized + ": " + std::to_string(facts.admitted),
         facts.authorized_problem, "such a line, or such a file, admits nobody");
  }
  return findings;
}

}  // namespace vgpu::tools
