// Events that two processes share by handles.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <thread>

#include "ipc_support.h"

namespace vgpu::conformance {
namespace {

class IpcEventTest : public IpcTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (HasFatalFailure()) return;
    int shared = 0;
    ASSERT_OK(cuDeviceGetAttribute(&shared, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, device_));
    CUevent event = nullptr;
    if (shared == 0) {
      EXPECT_CU(cuEventCreate(&event, kInterprocess), CUDA_ERROR_NOT_SUPPORTED);
      GTEST_SKIP() << "no events are shared here";
    }
  }
  static CUevent create() {
    CUevent event = nullptr;
    EXPECT_OK(cuEventCreate(&event, kInterprocess));
    return event;
  }
  static CUipcEventHandle handle_of(CUevent event) {
    CUipcEventHandle handle = {};
    EXPECT_OK(cuIpcGetEventHandle(&handle, event));
    return handle;
  }
  static CUevent open_event(const char* name) {
    CUevent event = nullptr;
    EXPECT_OK(cuIpcOpenEventHandle(&event, handed_over<CUipcEventHandle>(name)));
    return event;
  }
  static constexpr unsigned kInterprocess = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
};

TEST_F(IpcEventTest, WrongCalls) {
  CUevent event = create(), other = nullptr, plain = nullptr;
  CUipcEventHandle handle = handle_of(event);
  EXPECT_CU(cuIpcOpenEventHandle(&other, handle), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuIpcOpenEventHandle(nullptr, handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuIpcOpenEventHandle(&other, CUipcEventHandle{}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuIpcGetEventHandle(nullptr, event), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
  EXPECT_CU(cuIpcGetEventHandle(&handle, plain), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuIpcGetEventHandle(&handle, nullptr), CUDA_ERROR_INVALID_HANDLE);
  float ms = 0;
  EXPECT_CU(cuEventElapsedTime_v2(&ms, event, event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_OK(cuEventDestroy_v2(event));
  EXPECT_OK(cuEventDestroy_v2(plain));
}

// It behaves as any other event in the process that made it, shared or not.
TEST_F(IpcEventTest, WorksAtHome) {
  const Words words(16);
  for (const bool shared : {false, true}) {
    const CUevent event = create();
    if (shared) (void)handle_of(event);
    EXPECT_OK(cuEventQuery(event));
    EXPECT_OK(cuEventSynchronize(event));
    Stream first, second;
    {
      Gate gate(function("gate"), first);
      EXPECT_EQ(launch("fill", first, words.at(), 16, 5), CUDA_SUCCESS);
      EXPECT_OK(cuEventRecord(event, first));
      EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
      EXPECT_OK(cuStreamWaitEvent(second, event, 0));
      EXPECT_EQ(launch("add", second, words.at(), 16, 2), CUDA_SUCCESS);
      EXPECT_CU(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
      gate.open();
      EXPECT_OK(cuEventSynchronize(event));
    }
    EXPECT_OK(cuEventQuery(event));
    EXPECT_OK(cuStreamSynchronize(second));
    EXPECT_EQ(words.read(), std::vector<uint32_t>(16, 7));
    EXPECT_OK(cuEventDestroy_v2(event));
  }
}

// Behind all of a context, and before all that is to come.
TEST_F(IpcEventTest, StandsForAWholeContext) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();  // else the gate's copy would wait, too
  const Words words(16), others(16);
  CUcontext context = nullptr;
  EXPECT_OK(cuCtxGetCurrent(&context));
  for (const bool shared : {false, true}) {
    const CUevent event = create();
    if (shared) (void)handle_of(event);
    Stream first, second;
    {
      Gate gate(function("gate"), first);
      EXPECT_EQ(launch("fill", first, words.at(), 16, 5), CUDA_SUCCESS);
      EXPECT_OK(cuCtxRecordEvent(context, event));
      EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
      EXPECT_OK(cuCtxWaitEvent(context, event));
      EXPECT_EQ(launch("add", second, words.at(), 16, 2), CUDA_SUCCESS);
      Stream later;
      EXPECT_EQ(launch("add", later, others.at(), 16, 2), CUDA_SUCCESS);
      EXPECT_CU(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
      EXPECT_CU(cuStreamQuery(later), CUDA_ERROR_NOT_READY);
      gate.open();
      EXPECT_OK(cuEventSynchronize(event));
      EXPECT_OK(cuStreamSynchronize(later));
    }
    EXPECT_OK(cuEventQuery(event));
    EXPECT_OK(cuStreamSynchronize(second));
    EXPECT_EQ(words.read(), std::vector<uint32_t>(16, 7));
    EXPECT_OK(cuEventDestroy_v2(event));
  }
}

// Recorded by one graph and awaited by another, launched over and over.
TEST_F(IpcEventTest, IsPartOfGraphs) {
  const Words words(16);
  for (const bool shared : {false, true}) {
    const CUevent event = create();
    CUgraph recorder = nullptr, waiter = nullptr;
    CUgraphNode node = nullptr;
    CUgraphExec record = nullptr, wait = nullptr;
    EXPECT_OK(cuGraphCreate(&recorder, 0));
    EXPECT_OK(cuGraphCreate(&waiter, 0));
    EXPECT_OK(cuGraphAddEventRecordNode(&node, recorder, nullptr, 0, event));
    EXPECT_OK(cuGraphAddEventWaitNode(&node, waiter, nullptr, 0, event));
    EXPECT_OK(cuGraphInstantiateWithFlags(&record, recorder, 0));
    EXPECT_OK(cuGraphInstantiateWithFlags(&wait, waiter, 0));
    if (shared) (void)handle_of(event);
    Stream first, second;
    for (uint32_t round = 0; round < 3; ++round) {
      Gate gate(function("gate"), first);
      EXPECT_EQ(launch("fill", first, words.at(), 16, round), CUDA_SUCCESS);
      EXPECT_OK(cuGraphLaunch(record, first));
      EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
      EXPECT_OK(cuGraphLaunch(wait, second));
      EXPECT_EQ(launch("add", second, words.at(), 16, 7), CUDA_SUCCESS);
      EXPECT_CU(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
      gate.open();
      EXPECT_OK(cuEventSynchronize(event));
      EXPECT_OK(cuEventQuery(event));
      EXPECT_OK(cuStreamSynchronize(second));
      EXPECT_EQ(words.read(), std::vector<uint32_t>(16, round + 7));
    }
    for (const CUgraphExec each : {record, wait}) EXPECT_OK(cuGraphExecDestroy(each));
    for (const CUgraph each : {recorder, waiter}) EXPECT_OK(cuGraphDestroy(each));
    EXPECT_OK(cuEventDestroy_v2(event));
  }
}

// What a graph records and what stands behind a whole context, another process waits for; the other
// way round too.
TEST_F(IpcEventTest, ProcessesWaitForGraphsAndContexts) {
  if (alone()) GTEST_SKIP() << "no other guests here";
  const Words mailbox(16), words(1 << 16);
  EXPECT_OK(cuMemsetD32_v2(mailbox.at(), 0, 16));
  EXPECT_OK(cuCtxSynchronize());
  const CUevent there = create();
  hand_over("VGPU_TEST_SMALL", IpcTest::handle_of(mailbox.at()));
  hand_over("VGPU_TEST_LARGE", IpcTest::handle_of(words.at()));
  hand_over("VGPU_TEST_EVENT", handle_of(there));
  int code = -1;
  std::thread child(
      [&code] { code = run_in_fresh_process("IpcEventTest.DISABLED_WaitsInAContext"); });
  await(mailbox.at(), 1);  // it has opened everything
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec record = nullptr;
  EXPECT_OK(cuGraphCreate(&graph, 0));
  EXPECT_OK(cuGraphAddEventRecordNode(&node, graph, nullptr, 0, there));
  EXPECT_OK(cuGraphInstantiateWithFlags(&record, graph, 0));
  Stream stream;
  {
    Gate gate(function("gate"), stream);
    EXPECT_EQ(launch("fill", stream, words.at(), 1 << 16, 100), CUDA_SUCCESS);
    EXPECT_OK(cuGraphLaunch(record, stream));
    EXPECT_OK(cuMemsetD32_v2(mailbox.at(1), 1, 1));  // recorded
    await(mailbox.at(), 2);                          // the other has queued its work
    EXPECT_CU(cuEventQuery(there), CUDA_ERROR_NOT_READY);
    gate.open();
  }
  await(mailbox.at(), 3);  // and recorded the event itself, behind all of its context
  CUgraph waiting = nullptr;
  CUgraphExec wait = nullptr;
  EXPECT_OK(cuGraphCreate(&waiting, 0));
  EXPECT_OK(cuGraphAddEventWaitNode(&node, waiting, nullptr, 0, there));
  EXPECT_OK(cuGraphInstantiateWithFlags(&wait, waiting, 0));
  EXPECT_OK(cuGraphLaunch(wait, stream));
  EXPECT_EQ(launch("add", stream, words.at(), 1 << 16, 1), CUDA_SUCCESS);
  EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_OK(cuMemsetD32_v2(mailbox.at(2), 1, 1));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(1 << 16, 111));
  child.join();
  EXPECT_EQ(code, 0);
  for (const CUgraphExec each : {record, wait}) EXPECT_OK(cuGraphExecDestroy(each));
  for (const CUgraph each : {graph, waiting}) EXPECT_OK(cuGraphDestroy(each));
  EXPECT_OK(cuEventDestroy_v2(there));
}

TEST_F(IpcEventTest, DISABLED_WaitsInAContext) {
  const CUdeviceptr mailbox = open(handed_over("VGPU_TEST_SMALL"));
  const CUdeviceptr words = open(handed_over("VGPU_TEST_LARGE"));
  const CUevent event = open_event("VGPU_TEST_EVENT");
  CUcontext context = nullptr;
  EXPECT_OK(cuCtxGetCurrent(&context));
  const auto say = [&](Stream& stream, uint32_t value) {
    EXPECT_OK(cuMemcpyHtoDAsync_v2(mailbox, &value, 4, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
  };
  const auto hear = [&](Stream& stream, CUdeviceptr address) {
    uint32_t word = 0;
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (word != 1 && std::chrono::steady_clock::now() < end) {
      EXPECT_OK(cuMemcpyDtoHAsync_v2(&word, address, 4, stream));
      EXPECT_OK(cuStreamSynchronize(stream));
    }
  };
  Stream side;
  say(side, 1);
  hear(side, mailbox + 4);
  EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  CUcontext other = nullptr;  // whose streams do not wait
  EXPECT_OK(cuCtxCreate_v4(&other, nullptr, 0, device_));
  const CUdeviceptr there = open(handed_over("VGPU_TEST_SMALL"));
  EXPECT_OK(cuCtxSetCurrent(context));
  EXPECT_OK(cuCtxWaitEvent(context, event));
  Stream stream;
  EXPECT_EQ(launch("add", stream, words, 1 << 16, 10), CUDA_SUCCESS);
  EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_OK(cuCtxSetCurrent(other));
  const uint32_t two = 2;
  EXPECT_OK(cuMemcpyHtoD_v2(there, &two, 4));
  EXPECT_OK(cuCtxSetCurrent(context));
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_OK(cuStreamSynchronize(stream));
  // Recorded behind work that goes on until the other says so.
  {
    Gate gate(function("gate"), stream);
    EXPECT_OK(cuCtxRecordEvent(context, event));
    EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    say(side, 3);
    hear(side, mailbox + 8);
    gate.open();
  }
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_OK(cuEventDestroy_v2(event));
  EXPECT_OK(cuIpcCloseMemHandle(words));
  EXPECT_OK(cuIpcCloseMemHandle(mailbox));
  EXPECT_OK(cuCtxDestroy_v2(other));
  EXPECT_OK(cuCtxSetCurrent(context));
}

// Its end waits for no work, and keeps none from going on.
TEST_F(IpcEventTest, EndsBesideWork) {
  const CUevent event = create();
  (void)handle_of(event);
  const Words words(16);
  Stream busy, other;
  Gate gate(function("gate"), busy);
  EXPECT_OK(cuEventDestroy_v2(event));
  EXPECT_EQ(launch("fill", other, words.at(), 16, 5), CUDA_SUCCESS);
  EXPECT_OK(cuStreamSynchronize(other));
  EXPECT_CU(cuStreamQuery(busy), CUDA_ERROR_NOT_READY);
}

// However many records are not past yet, whoever waits for other work is answered.
TEST_F(IpcEventTest, RecordsWaitWithTheirStream) {
  // More than a worker has threads; directly a full stream holds its caller up.
  const int records = std::getenv("VGPU_TEST_BACKEND") == std::string("direct") ? 3 : 300;
  const CUevent event = create();
  (void)handle_of(event);
  const Words words(4 << 20);
  Stream busy, other;
  {
    Gate gate(function("gate"), busy);
    for (int i = 0; i < records; ++i) ASSERT_OK(cuEventRecord(event, busy));
    for (int i = 0; i < 4; ++i)  // too much to be past at once
      EXPECT_EQ(launch("fill", other, words.at(), 4 << 20, 5), CUDA_SUCCESS);
    EXPECT_OK(cuStreamSynchronize(other));
    EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  }
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_OK(cuEventQuery(event));
  EXPECT_OK(cuEventDestroy_v2(event));
}

// Each waits on its device for what the other has recorded: words go there and back.
TEST_F(IpcEventTest, ProcessesWaitForEachOther) {
  if (alone()) GTEST_SKIP() << "no other guests here";
  const Words mailbox(16), words(1 << 16);
  EXPECT_OK(cuMemsetD32_v2(mailbox.at(), 0, 16));
  EXPECT_OK(cuCtxSynchronize());
  const CUevent there = create();
  hand_over("VGPU_TEST_SMALL", IpcTest::handle_of(mailbox.at()));
  hand_over("VGPU_TEST_LARGE", IpcTest::handle_of(words.at()));
  hand_over("VGPU_TEST_EVENT", handle_of(there));
  int code = -1;
  std::thread child([&code] { code = run_in_fresh_process("IpcEventTest.DISABLED_WaitsAndAdds"); });
  await(mailbox.at(), 1);  // it has opened everything
  Stream stream;
  {
    Gate gate(function("gate"), stream);
    EXPECT_EQ(launch("fill", stream, words.at(), 1 << 16, 100), CUDA_SUCCESS);
    EXPECT_OK(cuEventRecord(there, stream));
    EXPECT_OK(cuMemsetD32_v2(mailbox.at(1), 1, 1));  // recorded
    await(mailbox.at(), 2);                          // the other has queued its work
    EXPECT_CU(cuEventQuery(there), CUDA_ERROR_NOT_READY);
    gate.open();
  }
  await(mailbox.at(), 3);  // and recorded the event itself
  EXPECT_OK(cuStreamWaitEvent(stream, there, 0));
  EXPECT_EQ(launch("add", stream, words.at(), 1 << 16, 1), CUDA_SUCCESS);
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(1 << 16, 111));
  EXPECT_OK(cuMemsetD32_v2(mailbox.at(2), 1, 1));
  child.join();
  EXPECT_EQ(code, 0);
  EXPECT_OK(cuEventDestroy_v2(there));
}

TEST_F(IpcEventTest, DISABLED_WaitsAndAdds) {
  const CUdeviceptr mailbox = open(handed_over("VGPU_TEST_SMALL"));
  const CUdeviceptr words = open(handed_over("VGPU_TEST_LARGE"));
  const CUevent event = open_event("VGPU_TEST_EVENT");
  EXPECT_OK(cuEventQuery(event));
  const auto say = [&](uint32_t value) { EXPECT_OK(cuMemcpyHtoD_v2(mailbox, &value, 4)); };
  say(1);
  await(mailbox + 4, 1);
  Stream stream;
  EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  EXPECT_OK(cuStreamWaitEvent(stream, event, 0));
  EXPECT_EQ(launch("add", stream, words, 1 << 16, 10), CUDA_SUCCESS);
  EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  say(2);
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_OK(cuEventRecord(event, stream));
  say(3);
  await(mailbox + 8, 1);
  EXPECT_OK(cuEventQuery(event));
  EXPECT_OK(cuEventDestroy_v2(event));
  EXPECT_OK(cuIpcCloseMemHandle(words));
  EXPECT_OK(cuIpcCloseMemHandle(mailbox));
}

// Nobody waits for the dead.
TEST_F(IpcEventTest, ARecordEndsWithItsProcess) {
  if (alone()) GTEST_SKIP() << "no other guests here";
  const CUevent event = create();
  hand_over("VGPU_TEST_EVENT", handle_of(event));
  EXPECT_EQ(run_in_fresh_process("IpcEventTest.DISABLED_RecordsAndDies"), 0);
  Stream stream;
  EXPECT_OK(cuStreamWaitEvent(stream, event, 0));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_OK(cuEventQuery(event));
  EXPECT_OK(cuEventDestroy_v2(event));
}

TEST_F(IpcEventTest, DISABLED_RecordsAndDies) {
  const CUevent event = open_event("VGPU_TEST_EVENT");
  Stream stream;
  const Gate gate(function("gate"), stream);
  EXPECT_OK(cuEventRecord(event, stream));
  EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  ::_exit(HasFailure() ? 1 : 0);
}

TEST_F(IpcEventTest, ARecordInABrokenContextIsPast) {
  EXPECT_EQ(run_in_fresh_process("IpcEventChildTest.DISABLED_RecordsBehindAFault"), 0);
}

// Nobody waits for ever for what a fault has kept from running.
TEST(IpcEventChildTest, DISABLED_RecordsBehindAFault) {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction poke = nullptr;
  CUevent event = nullptr;
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  ASSERT_OK(cuModuleLoadData(&module, kKernels));
  ASSERT_OK(cuModuleGetFunction(&poke, module, "poke"));
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  CUipcEventHandle handle = {};
  ASSERT_OK(cuIpcGetEventHandle(&handle, event));
  CUdeviceptr nowhere = 0x10;
  void* params[] = {&nowhere};
  ASSERT_OK(cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  const CUresult recorded = driver().cuEventRecord(event, nullptr);
  EXPECT_TRUE(recorded == CUDA_SUCCESS || recorded == CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_CU(cuEventSynchronize(event), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_CU(cuEventQuery(event), CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace vgpu::conformance
