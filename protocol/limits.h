// Every limit of the protocol, with its name and unit, and what happens when it is reached.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_LIMITS_H_
#define VGPU_PROTOCOL_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace vgpu::protocol {

inline constexpr uint32_t kProtocolVersion =
    6;  // raised by any change of layout or of the handshake

inline constexpr size_t kCacheLineBytes = 64;
inline constexpr size_t kPageBytes = 4096;

// --- ring
// ------------------------------------------------------------------------------------------
inline constexpr uint32_t kRecordAlignBytes = 16;
// One record with header, struct and inline blob. Producer::reserve returns null for more; the
// consumer ends the session. Room for the largest parameter block that CUDA has (32,764 bytes) and
// its struct.
inline constexpr uint32_t kRecordBytesMax = 64 * 1024;
inline constexpr uint32_t kLaunchCooperative = 1;       // a bit of a launch's flags
inline constexpr uint32_t kRingBytesDefault = 4 << 20;  // all ring sizes are powers of two
inline constexpr uint32_t kRingBytesMin =
    4 * kRecordBytesMax;  // a pad and a record always fit an empty ring
inline constexpr uint32_t kRingBytesMax = 64 << 20;
// Larger data goes through a slab: a record this long costs as much as the slab's bookkeeping.
inline constexpr uint32_t kBlobInlineBytesMax = 4096;

// --- replies
// ---------------------------------------------------------------------------------------
inline constexpr uint32_t kReplySlots = 256;            // more waiting threads queue in the guest
inline constexpr uint32_t kReplyPayloadBytesMax = 112;  // larger results go through the down-slab

// --- code
// -------------------------------------------------------------------------------------------
inline constexpr uint64_t kLinksMax = 4096;  // in progress; the guest refuses the next one

// --- calls of the guest's functions
// ----------------------------------------------------------------------
inline constexpr uint32_t kHostCallEntries =
    128;  // posted and not finished; more wait in the worker

// --- semaphores
// ------------------------------------------------------------------------------------
inline constexpr uint32_t kContextSlots =
    64;  // contexts with a sticky word; the 65th is refused by the guest

inline constexpr uint32_t kHoldWords = 64;  // streams share them by their id
// The word that says whether a stream is held; `stream` is its id on the wire.
constexpr uint32_t hold_word(uint64_t stream) {
  return static_cast<uint32_t>(stream >> 4) % kHoldWords;
}

// --- slabs
// -----------------------------------------------------------------------------------------
inline constexpr uint64_t kSlabBytesDefault = 16u << 20;  // each way
inline constexpr uint64_t kSlabBytesMin = 64 * 1024;
inline constexpr uint64_t kSlabBytesMax = 1u << 30;
inline constexpr uint32_t kStagingAlignBytes =
    256;  // offsets of staged blobs, so that copies are aligned
// Behind this offset a slab starts over when it can: as much as the caches hold well.
inline constexpr uint64_t kStagingWarmBytes = 1 << 20;
inline constexpr uint32_t kStagingEntriesMax = 4096;  // allocations in flight; the next one waits
inline constexpr uint32_t kDownPiecesMax = 1024;      // results in flight, likewise
// Whoever waits for so long for space that one record holds goes another way: its stream may be
// stuck, and what ends that may be behind this wait. A network is slow without being stuck.
inline constexpr int64_t kSlabPatienceNs = 20'000'000, kSlabPatienceNetworkNs = 500'000'000;

// --- regions of virtual machines
// ----------------------------------------------------------------------
inline constexpr uint64_t kRegionBytesMax = uint64_t{1} << 40;
// Of an ivshmem device's registers: what is written there is a peer's number << 16 | a vector.
inline constexpr size_t kDoorbellOffset = 12;
inline constexpr uint32_t kHostPeer = 0;  // the host's number among the device's peers
// A VM's control area, in front of the pieces: identity, heartbeats and a mailbox each way.
inline constexpr uint64_t kMailRingBytes = 512 * 1024;  // of messages of up to 128 KiB
inline constexpr uint64_t kRegionControlBytes = uint64_t{2} << 20;
inline constexpr uint32_t kVmConnectionsMax = 64;  // guest processes of a VM; the next is refused
inline constexpr int64_t kBeatNs = 500'000'000;    // each side shows so often that it lives
inline constexpr int kBeatsMissedMax = 10;         // then it is believed to be gone

// --- control messages
// ------------------------------------------------------------------------------
inline constexpr size_t kControlMessageBytesMax = 128 * 1024;  // longer: malformed
inline constexpr size_t kControlDescriptorsMax = 6;            // more: malformed, all are closed
inline constexpr size_t kNameBytesMax = 255;
inline constexpr size_t kListedNameBytesMax = 63;  // names in a listing of guests are cut
inline constexpr size_t kTextBytesMax = 1023;
inline constexpr size_t kRangesMax = 8;
inline constexpr size_t kDevicesMax = 16;  // of one guest, and of one server
inline constexpr size_t kDeviceAttributesMax = 512;
inline constexpr size_t kGuestsListedMax = 256;
inline constexpr size_t kNetworksMax = 8;  // addresses at which one server listens

// --- over a network
// ----------------------------------------------------------------------------------
inline constexpr size_t kKeyBytes = 40;              // of a key in Z85, as it is written everywhere
inline constexpr size_t kDataAddressBytesMax = 256;  // of the data connection, as its provider says
inline constexpr uint32_t kBeatMsMin = 10;           // of a guest's sign of life; less: malformed
inline constexpr uint32_t kBeatMsMax = 60'000;
// How long a session may be silent, or without its data connection.
inline constexpr uint32_t kGraceMsMin = 1'000;
inline constexpr uint32_t kGraceMsMax = 3'600'000;
inline constexpr uint32_t kGraceMsDefault = 30'000;
// More memory than any device has: nobody can ask for it.
// Of the heap of kernels' malloc: what a context has anyhow, and no quota counts.
inline constexpr uint64_t kHeapBytesFree = 8 << 20;
inline constexpr uint64_t kMemoryAskMax = uint64_t{1} << 50;
inline constexpr size_t kGuestsPageMax = 32;  // with all their figures, in one message

// --- addresses
// ---------------------------------------------------------------------------------------
// Behind each range of device addresses that a guest offers it holds this much for host memory.
inline constexpr uint64_t kHostRangeBytes = uint64_t{1} << 40;

// --- waiting
// ---------------------------------------------------------------------------------------
inline constexpr int64_t kSpinNsStart = 20'000;
inline constexpr int64_t kSpinNsMax = 50'000;  // longer spins buy nothing but CPU time (measured)
inline constexpr int64_t kSpinNsMin = 1'000;
// Between two looks of a waiter that nobody can wake (BellKind::kPolled). The longest nap is how
// late an idle side may notice; at 250 naps a second one costs about a thousandth of a CPU.
inline constexpr int64_t kNapNsMin = 20'000;
inline constexpr int64_t kNapNsMax = 4'000'000;
// A waiter that is woken by interrupts (BellKind::kRung) looks by itself after so long.
inline constexpr int64_t kRungWaitNsMax = 1'000'000'000;
// After so many records in a row that want no answer, a worker that has caught up leaves the ring
// alone for this long: each look at it takes the line away that the guest writes next.
inline constexpr uint32_t kBurstRecords = 8;
inline constexpr int64_t kBurstPauseNs = 500;
// How far ahead of its tail a guest asks for the ring's lines, which the worker read a lap ago.
inline constexpr uint64_t kPrefetchBytes = 1024;

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_LIMITS_H_
