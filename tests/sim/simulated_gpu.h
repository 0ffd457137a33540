// A GPU of host memory behind the driver's and CUPTI's tables.

#ifndef REPRISE_TESTS_SIM_SIMULATED_GPU_H_
#define REPRISE_TESTS_SIM_SIMULATED_GPU_H_

#include <cuda.h>
#include <cupti.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/device/cupti.h"
#include "engine/device/driver.h"
#include "engine/device/launch.h"
#include "tests/sim/failing_calls.h"
#include "tests/sim/simulated_streams.h"

namespace reprise::sim {

// Kernels are functions on their parameters' bytes, streams are queues
// (SimulatedStreams), graphs copy the parameters that they are given: a launch
// that is enqueued keeps the parameters of that moment, whatever is written
// into its executable graph, or becomes of it, before it runs. Launches of one
// executable graph follow each other; its nodes are done in the order of their
// making, or in any other one that its edges allow (`order`).
//
// One at a time: entries of a table have no other way to find it. Every driver
// call can be made to fail, and every call that the engine makes comes back as
// a callback of a call that nobody knows, which refuses an op that does not
// hide it. The driver's entries are thread-safe; all else is single-thread.
class SimulatedGpu {
 public:
  // What a function of the device does with its parameters.
  struct Kernel {
    std::vector<device::ParamSpan> params;
    std::function<void(const std::byte* image)> run;
    int own_shared_bytes = 0;
    int most_threads = 1024;
    // What it was allowed by cuFuncSetAttribute.
    int most_shared_bytes = 48 << 10;
    bool large_clusters = false;
  };

  SimulatedGpu();
  ~SimulatedGpu();
  SimulatedGpu(const SimulatedGpu&) = delete;
  SimulatedGpu& operator=(const SimulatedGpu&) = delete;

  template <typename... P>
  static Kernel MakeKernel(void (*function)(P...)) {
    Kernel kernel;
    size_t end = 0;
    [[maybe_unused]] const auto add = [&kernel, &end](size_t size,
                                                      size_t alignment) {
      end = (end + alignment - 1) / alignment * alignment;
      kernel.params.push_back(
          {static_cast<uint32_t>(end), static_cast<uint32_t>(size)});
      end += size;
    };
    (add(sizeof(P), alignof(P)), ...);
    kernel.run = [function, params = kernel.params](const std::byte* image) {
      std::tuple<P...> values;
      size_t i = 0;
      std::apply(
          [&](P&... value) {
            (std::memcpy(&value, image + params[i++].offset_bytes, sizeof(P)),
             ...);
          },
          values);
      std::apply(function, values);
    };
    return kernel;
  }

  // Eager's own work on `eager_stream`, seen by CUPTI.
  template <typename... P>
  void Launch(const Kernel& kernel, P... params) {
    void* pointers[] = {&params...};
    LaunchEagerly(kernel, pointers);
  }
  void Fill(uint64_t to, unsigned char value, size_t size_bytes);
  void Copy(uint64_t to, uint64_t from, size_t size_bytes);
  // Between host and device: no replay can stand for these. Read waits.
  void Read(void* to, uint64_t from, size_t size_bytes);
  void Write(uint64_t to, const void* from, size_t size_bytes);

  // Memory that work may touch; a null pointer, and a fault, if `accessible`
  // says that it may not. Work that meets a fault does nothing.
  static std::byte* Access(uint64_t address, size_t size_bytes);
  static uint32_t* Words(uint64_t address, size_t words) {
    return reinterpret_cast<uint32_t*>(Access(address, 4 * words));
  }

  // The driver call after `calls` more gives `result`, once, and does nothing
  // (a call that ends something ends it); its name is `failed` then.
  void FailAfter(int calls, CUresult result = CUDA_ERROR_UNKNOWN) {
    fail_after_ = calls;
    failure_ = result;
  }

  // Every entry of the tables begins with it, also those that are made
  // elsewhere: the call is counted and told of, and fails if it is its turn.
  CUresult Enter(const char* name);
  CUcontext current() const { return current_; }

  // Blocks of the grid's first direction, of the kernel that runs.
  static uint32_t blocks() { return only->blocks_; }

  // Everything that was made and not ended.
  size_t objects() const {
    return graphs_.size() + execs_.size() + memory_.size() + pinned_.size() +
           events_.size() + libraries_.size() + made_streams_.size() + pools_ +
           pool_memory_.size();
  }
  // CUPTI has a subscriber.
  bool subscribed() const { return callback_ != nullptr; }

  // A node of a graph with its parameters.
  struct Node {
    enum class Kind : uint8_t { kKernel, kFill, kCopy, kWait, kRecord, kGraph };
    Kind kind = Kind::kKernel;
    const Kernel* kernel = nullptr;
    std::vector<std::byte> image;
    CUDA_MEMSET_NODE_PARAMS fill{};
    CUDA_MEMCPY3D copy{};
    CUevent event = nullptr;
    std::vector<Node> child;  // of a graph
    uint32_t blocks = 1;
    std::vector<size_t> before;  // places of those that it waits for
    std::vector<CUlaunchAttribute> attributes;
    size_t early_edges = 0;  // programmatic ones that lead to it
    bool enabled = true;

    // One word of the parameters, as last written.
    uint64_t Word(size_t offset_bytes) const {
      uint64_t word;
      std::memcpy(&word, image.data() + offset_bytes, sizeof word);
      return word;
    }
  };
  using Graph = std::vector<Node>;

  // The executable graph was made of the graph of that node.
  bool IsOf(CUgraphNode node, CUgraphExec exec) const;
  // Executable graphs, in the order of their making.
  std::vector<const Graph*> execs() const;

  device::Driver driver;
  device::Cupti cupti;
  // One of CUPTI's that fails does nothing and gives an unknown error.
  FailingCalls cupti_calls;
  // Every so often that callbacks are switched off, CUPTI forgets all threads,
  // as if they were inside a call
  // (docs/decisions/0035-threads-that-cupti-forgets.md); 0: never.
  int forgets_every = 0;
  SimulatedStreams streams;
  const CUstream stream = streams.Make();
  CUstream eager_stream = stream;
  const CUcontext context = reinterpret_cast<CUcontext>(0xc);
  std::function<bool(uint64_t address, size_t size_bytes)> accessible;
  // What the driver says when it is asked; without it, that all is.
  std::function<bool(uint64_t address)> is_memory;

  std::vector<std::string> faults;  // of work that touched what it may not
  std::vector<std::string> calls;   // of the engine, by name
  std::string failed;
  int graph_launches = 0;
  std::set<CUcontext> contexts_of_launches;  // of graphs
  int updates = 0;               // of single nodes of executable graphs
  int takeovers = 0;             // of whole ones
  bool refuses_updates = false;  // of whole ones
  // Draws the order of nodes that no edge orders, at each launch.
  std::optional<std::mt19937> order;
  uint32_t forgets_edges = 0;  // planted: of so many edges one; 0: none
  // What is written into an executable graph reaches launches in flight, as no
  // driver does.
  bool patches_in_flight = false;
  std::vector<CUlaunchAttribute> last_attributes;  // of a launch by itself
  int blocks_at_a_time = 8;                        // of a multiprocessor
  int clusters_at_a_time = 4;
  int finalized = 0;  // times that CUPTI was detached
  bool capturing = false;
  int broken_captures = 0;  // calls in between that no capture survives
  std::set<CUstream> upload_streams;  // of executable graphs
  size_t pool_bytes = ~size_t{0};     // that pools may have in use
  size_t pinned_bytes = ~size_t{0};   // that one piece may have
  bool reuses_pool_memory = false;    // what was freed is given out again
  // Of streams that were made with one.
  std::map<CUstream, int> priorities;
  // Of streams that are not of `context`.
  std::map<CUstream, CUcontext> stream_contexts;

  // Pieces of pools that are in use, or will be until their stream frees them.
  size_t pool_memory() const { return pool_memory_.size(); }

 private:
  struct Exec {
    uint64_t id;  // never another's
    std::shared_ptr<Graph> graph;
    uint64_t graph_id;  // that it was made of
  };
  struct Event {
    uint64_t recorded = 0;  // times
    uint64_t reached = 0;   // times
    uint64_t chain = 0;
    bool timed = false;
    uint64_t time = 0;      // of the latest
    bool captured = false;  // recorded in a graph: nobody outside may ask
  };
  // Apart from the chains of executable graphs.
  static constexpr uint64_t kEventChains = uint64_t{1} << 32;

  void MakeDriver();
  void MakeDeviceEntries();
  void MakeMemoryEntries();
  void MakePoolEntries();
  void MakeStreamEntries();
  void MakeGraphEntries();
  void MakeEventNodeEntries();
  void MakeExecEntries();
  void MakeCupti();

  // By a call that only a thread in relaxed mode may make meanwhile.
  void BreakCapture();
  void Do(const Node& node);
  bool IsPinned(const std::byte* memory) const;
  // A fill or copy whose memory was freed, though it may not be yet.
  bool NamesFreedMemory(const Node& node) const;
  CUresult SetNode(Node& node, Node changed);
  CUresult AddNode(CUgraph graph, CUgraphNode* node, Node added,
                   const CUgraphNode* before, size_t count);
  // Places of a graph's nodes, each behind those that it waits for.
  std::vector<size_t> OrderOf(const Graph& graph);
  Node& NodeOf(CUgraphNode node);
  void LaunchEagerly(const Kernel& kernel, void** params);
  void Ring(CUpti_CallbackId id, const char* name, const void* params);
  // The event, which must not have been destroyed.
  std::shared_ptr<Event> EventOf(CUevent event);
  void EnqueueRecord(CUstream stream, CUevent event);
  void EnqueueWait(CUstream stream, CUevent event);
  // True if the stream is being captured; the work is part of its graph then.
  bool Captured(CUstream stream, Node node);
  // Whatever names a stream that has ended is undefined.
  void Use(CUstream stream) const {
    EXPECT_FALSE(ended_streams_.contains(stream)) << "a stream that has ended";
  }

  static inline SimulatedGpu* only = nullptr;
  // Held by every entry of the driver: builds call it from a thread of theirs.
  std::recursive_mutex entries_;

  CUpti_CallbackFunc callback_ = nullptr;
  bool enabled_ = false;
  int switched_off_ = 0;
  bool forgot_ = false;
  inline static bool attached_ = false;      // to the process
  std::atomic<int> launches_under_way_ = 0;  // that are under way
  int fail_after_ = -1;
  CUresult failure_ = CUDA_ERROR_UNKNOWN;
  CUcontext current_ = context;
  uint64_t exec_ids_ = 0;
  uint64_t event_chains_ = 0;
  uint64_t time_ = 0;  // in milliseconds; every kernel takes one
  std::vector<std::unique_ptr<Graph>> graphs_;
  std::map<const Graph*, uint64_t> graph_ids_;  // of the latest at an address
  uint64_t graphs_made_ = 0;
  std::vector<std::unique_ptr<Exec>> execs_;
  std::vector<std::unique_ptr<uint64_t[]>> memory_;
  std::map<const std::byte*, std::vector<std::byte>> pinned_;
  std::vector<std::shared_ptr<Event>> events_;
  std::vector<std::unique_ptr<uint64_t>> libraries_;
  std::set<CUstream> made_streams_;
  std::set<CUstream> ended_streams_;
  uint32_t blocks_ = 1;
  size_t pools_ = 0;
  std::map<CUdeviceptr, std::vector<std::byte>> pool_memory_;
  // Freed and poisoned, so that a late touch is seen and harms nobody.
  std::vector<std::vector<std::byte>> freed_;
  // Of pools, from the call that freed it on: where it ends, by its beginning.
  std::map<CUdeviceptr, CUdeviceptr> no_memory_;
  // What a stream is being captured into.
  CUstream captured_stream_ = nullptr;
  std::unique_ptr<Graph> captured_;
};

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_SIMULATED_GPU_H_
