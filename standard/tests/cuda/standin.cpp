// The driver's entry points that ovolo uses, on the processor: a stand-in for a device.
//
// Kernels are C++ translations of the generated ones; tests register them by their names in the cubin. Work
// is queued and runs as late as possible: when the host waits for it, and then in one of several orders that
// the streams, events and graphs allow, so that a missing wait shows as a wrong value. Device addresses are
// not valid on the host. Memory lies between guard zones and is NaN at first, and there is only as much of it
// as a test says. Copies from memory that is not pinned land as late as possible: when the host waits for the
// default stream, for which other streams do not wait. Calls that a device refuses while it captures are refused
// too, and invalidate the capture: some of them on the thread that captures, and waiting for the whole device on
// any thread. Misuse is recorded as a fault until a test asks for it, and so are the existing handles.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#define ENTRY extern "C" __attribute__((visibility("default"))) int

enum Code {
  SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901,
  CAPTURE_UNMATCHED = 903, CAPTURE_UNJOINED = 904, CAPTURE_ISOLATION = 905, CAPTURE_WRONG_THREAD = 908, UNKNOWN = 999,
};

static const uint64_t FIRST = 1ull << 46;
static const size_t GUARD = 4096, ALIGN = 256;
static const unsigned char POISON = 0xff;

static std::recursive_mutex lock;
typedef std::lock_guard<std::recursive_mutex> Guard;

// The state: what happened, and what exists.
static std::vector<std::string> faults;
// One for each thread, because other threads may query a library meanwhile.
static thread_local std::map<std::string, long> calls;
static thread_local std::map<std::string, long> live;
static int order;
static uint64_t seed = 1;
static thread_local std::string failing;
static std::string ignored;
static thread_local long failing_after;
static thread_local int failing_code;

static void fault(const std::string& what) { faults.push_back(what); }
static size_t random_below(size_t n) {
  seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
  return (size_t)((seed >> 11) % n);
}

struct Block { uint64_t address; size_t bytes; std::vector<unsigned char> memory; unsigned char* inside; };
static std::map<uint64_t, std::unique_ptr<Block>> device_blocks, host_blocks;
static uint64_t next_address = FIRST;

static Block* allocate(size_t bytes) {
  auto block = std::make_unique<Block>();
  block->bytes = bytes;
  block->memory.assign(bytes + 2 * GUARD + ALIGN, POISON);
  uintptr_t inside = (uintptr_t)block->memory.data() + GUARD;
  block->inside = (unsigned char*)((inside + ALIGN - 1) / ALIGN * ALIGN);
  return block.release();
}
static void check(const Block& block, const char* what) {
  for (const unsigned char* at = block.memory.data(); at < block.memory.data() + block.memory.size(); ++at) {
    if (at == block.inside) at += block.bytes;
    if (at < block.memory.data() + block.memory.size() && *at != POISON) {
      long where = (long)(at - block.inside);
      fault(std::string(what) + " was written at byte " + std::to_string(where) + " of " + std::to_string(block.bytes));
      return;
    }
  }
}
static Block* holder(std::map<uint64_t, std::unique_ptr<Block>>& blocks, uint64_t address, size_t bytes) {
  auto next = blocks.upper_bound(address);
  if (next == blocks.begin()) return nullptr;
  Block* block = std::prev(next)->second.get();
  return address - block->address <= block->bytes && bytes <= block->bytes - (address - block->address) ? block : nullptr;
}
// The host's address of some bytes of the device.
static unsigned char* reach(uint64_t address, size_t bytes) {
  Block* block = holder(device_blocks, address, bytes);
  return block ? block->inside + (address - block->address) : nullptr;
}

// Work, streams, events and graphs.
struct Event;
struct Stream;
enum Kind { OTHER, KERNEL, COPY };
struct Node { std::function<void()> run; std::set<size_t> after; Kind kind = OTHER; };
struct Graph { std::vector<Node> nodes; };
struct Capture { Stream* origin; std::set<Stream*> streams; Graph graph; std::thread::id thread; bool broken = false; };
struct Work { std::function<void()> run; Event* marks = nullptr; Event* awaits = nullptr; uint64_t ticket = 0; Kind kind = OTHER; uint64_t number = 0; };
struct Event {
  uint64_t recorded = 0, done = 0;
  Stream* stream = nullptr;
  Capture* capture = nullptr;
  std::set<size_t> frontier;
};
struct Stream { std::deque<Work> queue; Capture* capture = nullptr; std::set<size_t> frontier; bool busy = false; };
static std::set<Stream*> streams;
static std::set<Event*> events;
static std::set<Graph*> graphs, replays;

// The number of times that a copy ran before a kernel queued earlier, or a kernel before such a copy: a
// device can run them at the same time.
static long beside;
static bool apart(Kind one, Kind other) { return (one == COPY && other == KERNEL) || (one == KERNEL && other == COPY); }
static uint64_t queued;

static bool may_run(Stream* stream) {
  if (stream->queue.empty() || stream->busy) return false;
  const Work& work = stream->queue.front();
  return !work.awaits || work.awaits->done >= work.ticket;
}
static void run_one(Stream* stream) {
  Work work = stream->queue.front();
  stream->queue.pop_front();
  bool overtakes = false;
  for (Stream* other : streams) for (const Work& one : other->queue) overtakes |= one.number < work.number && apart(one.kind, work.kind);
  beside += overtakes;
  stream->busy = true;
  if (work.run) work.run();
  if (work.marks) work.marks->done = work.ticket;
  stream->busy = false;
}
// Runs the queue of a stream until it is empty or an event is done. Other streams run as little as possible
// (order 0), as much as possible (1), or randomly (2 and above).
static void drain(Stream* stream, Event* until, uint64_t ticket) {
  for (;;) {
    if (until ? until->done >= ticket : stream->queue.empty()) return;
    std::vector<Stream*> others;
    for (Stream* other : streams) if (other != stream && may_run(other)) others.push_back(other);
    bool run_other = order == 1 ? !others.empty() : order >= 2 && !others.empty() && random_below(2);
    if (run_other) {
      run_one(order == 1 ? others.back() : others[random_below(others.size())]);
      continue;
    }
    if (stream->queue.empty()) { fault("an event is awaited that nothing will record"); return; }
    const Work& work = stream->queue.front();
    if (work.awaits && work.awaits->done < work.ticket) {
      if (!work.awaits->stream || work.awaits->stream == stream) { fault("a stream waits for itself"); return; }
      drain(work.awaits->stream, work.awaits, work.ticket);
      if (work.awaits->done < work.ticket) return;
      continue;
    }
    run_one(stream);
  }
}
static void run_graph(const Graph& graph) {
  std::vector<bool> done(graph.nodes.size());
  for (size_t count = 0; count < graph.nodes.size(); ++count) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      bool can = !done[i];
      for (size_t before : graph.nodes[i].after) can = can && done[before];
      if (can) ready.push_back(i);
    }
    size_t next = order == 0 ? ready.back() : order == 1 ? ready.front() : ready[random_below(ready.size())];
    bool overtakes = false;
    for (size_t i = 0; i < next; ++i) overtakes |= !done[i] && apart(graph.nodes[i].kind, graph.nodes[next].kind);
    beside += overtakes;
    graph.nodes[next].run();
    done[next] = true;
  }
}
// Adds work to a stream, or to the graph that is being captured from it.
static int enqueue(Stream* stream, std::function<void()> run, Kind kind = OTHER) {
  if (!streams.count(stream)) return INVALID_HANDLE;
  if (stream->capture) {
    std::vector<Node>& nodes = stream->capture->graph.nodes;
    nodes.push_back({std::move(run), stream->frontier, kind});
    stream->frontier = {nodes.size() - 1};
    return SUCCESS;
  }
  Work work{std::move(run)};
  work.kind = kind;
  work.number = ++queued;
  stream->queue.push_back(std::move(work));
  return SUCCESS;
}
// Whether a thread captures; then its captures are invalid from now on. Without a thread, any thread counts.
static bool breaks_capture(const std::thread::id* thread) {
  bool breaks = false;
  for (Stream* stream : streams) if (stream->capture && (!thread || stream->capture->thread == *thread)) breaks = stream->capture->broken = true;
  return breaks;
}
static bool breaks_own_capture() {
  std::thread::id thread = std::this_thread::get_id();
  return breaks_capture(&thread);
}

// Copies on the default stream that have not landed.
static std::deque<std::function<void()>> landing;
static void land() {
  while (!landing.empty()) {
    auto copy = std::move(landing.front());
    landing.pop_front();
    copy();
  }
}

// The bytes of the device, those in use, and the most that were in use since a test asked.
static size_t memory = 24ull << 30, taken, most_taken;

// A thread that meets another one: it waits at an entry until the other one lets it go on.
static thread_local std::string meeting;
static std::mutex meeting_lock;
static std::condition_variable meeting_changed;
static bool met, left;
static void meet(const char* name) {
  if (meeting != name) return;
  meeting.clear();
  std::unique_lock<std::mutex> held(meeting_lock);
  met = true;
  meeting_changed.notify_all();
  meeting_changed.wait(held, [] { return left; });
}

static thread_local void* current;
// The number of references to the context.
static long contexts;
static int context_handle;
static std::vector<void*> libraries;

// Counts a call, and makes it fail if a test asked for that.
static int begin(const char* name, bool needs_context) {
  ++calls[name];
  if (failing == name && failing_after-- == 0) { failing.clear(); return failing_code; }
  if (needs_context && current != &context_handle) return INVALID_CONTEXT;
  if (needs_context && contexts == 0) return INVALID_CONTEXT;
  return SUCCESS;
}
#define BEGIN_ANYWHERE meet(__func__); Guard guard(lock); if (int code = begin(__func__, false)) return code
#define BEGIN meet(__func__); Guard guard(lock); if (int code = begin(__func__, true)) return code

ENTRY cuInit(unsigned) { BEGIN_ANYWHERE; return SUCCESS; }
ENTRY cuDriverGetVersion(int* version) {
  BEGIN_ANYWHERE;
  const char* told = getenv("OVOLO_STANDIN_CUDA");
  *version = told ? atoi(told) : 12090;
  return SUCCESS;
}
ENTRY cuDeviceGetCount(int* count) {
  BEGIN_ANYWHERE;
  const char* told = getenv("OVOLO_STANDIN_DEVICES");
  *count = told ? atoi(told) : 1;
  return SUCCESS;
}
ENTRY cuDeviceGet(int* device, int at) { BEGIN_ANYWHERE; *device = 7; return at == 0 ? SUCCESS : INVALID_DEVICE; }
ENTRY cuDeviceGetAttribute(int* value, int attribute, int device) {
  BEGIN_ANYWHERE;
  if (device != 7) return INVALID_DEVICE;
  // Tests set another clock of the memory, in kHz.
  const char* memory_clock = getenv("OVOLO_STANDIN_MEMORY_CLOCK");
  switch (attribute) {
    case 75: *value = 9; return SUCCESS;         // The compute capability is 9.0.
    case 76: *value = 0; return SUCCESS;
    case 38: *value = 1 << 20; return SUCCESS;   // The bytes of the cache that all multiprocessors share.
    case 16: *value = 132; return SUCCESS;       // Multiprocessors.
    case 13: *value = 1830000; return SUCCESS;   // Their clock, in kHz.
    case 36: *value = memory_clock ? atoi(memory_clock) : 3200000; return SUCCESS;
    case 37: *value = 6144; return SUCCESS;      // The width of the memory's bus, in bits.
  }
  return INVALID_VALUE;
}
ENTRY cuDeviceGetName(char* name, int bytes, int device) {
  BEGIN_ANYWHERE;
  if (device != 7) return INVALID_DEVICE;
  snprintf(name, bytes, "Stand-in");
  return SUCCESS;
}
ENTRY cuDevicePrimaryCtxRetain(void** context, int device) {
  BEGIN_ANYWHERE;
  if (device != 7) return INVALID_DEVICE;
  if (++contexts > 1) fault("the context is retained again");
  *context = &context_handle;
  return SUCCESS;
}
ENTRY cuDevicePrimaryCtxRelease_v2(int device) {
  BEGIN_ANYWHERE;
  if (device != 7 || contexts == 0) return INVALID_CONTEXT;
  if (--contexts == 0) fault("the context goes before the process ends");
  return SUCCESS;
}
ENTRY cuCtxSetCurrent(void* context) {
  BEGIN_ANYWHERE;
  if (context && (context != &context_handle || contexts == 0)) return INVALID_CONTEXT;
  current = context;
  return SUCCESS;
}
ENTRY cuCtxSynchronize() {
  BEGIN;
  if (breaks_capture(nullptr)) return CAPTURE_UNSUPPORTED;
  land();
  for (Stream* stream : streams) drain(stream, nullptr, 0);
  return SUCCESS;
}
static const std::map<int, std::pair<const char*, const char*>> TEXTS = {
  {INVALID_VALUE, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
  {OUT_OF_MEMORY, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
  {INVALID_IMAGE, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
  {INVALID_CONTEXT, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
  {INVALID_HANDLE, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
  {NOT_FOUND, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
  {ILLEGAL_ADDRESS, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
  {CAPTURE_UNSUPPORTED, {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}},
  {CAPTURE_INVALIDATED, {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"}},
  {CAPTURE_UNJOINED, {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"}},
};
ENTRY cuGetErrorName(int code, const char** text) {
  auto found = TEXTS.find(code);
  *text = found == TEXTS.end() ? nullptr : found->second.first;
  return *text ? SUCCESS : INVALID_VALUE;
}
ENTRY cuGetErrorString(int code, const char** text) {
  auto found = TEXTS.find(code);
  *text = found == TEXTS.end() ? nullptr : found->second.second;
  return *text ? SUCCESS : INVALID_VALUE;
}

ENTRY cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  BEGIN;
  if (bytes == 0) return INVALID_VALUE;
  if (breaks_own_capture()) return CAPTURE_UNSUPPORTED;
  if (bytes > memory - std::min(memory, taken)) return OUT_OF_MEMORY;
  taken += bytes;
  most_taken = std::max(most_taken, taken);
  Block* block = allocate(bytes);
  block->address = next_address;
  next_address += (bytes + (1 << 20)) / (1 << 20) * (1 << 20) + (1 << 20);
  device_blocks[block->address].reset(block);
  *address = block->address;
  ++live["memory"];
  return SUCCESS;
}
ENTRY cuMemFree_v2(uint64_t address) {
  BEGIN;
  auto found = device_blocks.find(address);
  if (found == device_blocks.end()) return INVALID_VALUE;
  if (breaks_own_capture()) return CAPTURE_UNSUPPORTED;
  land();
  taken -= found->second->bytes;
  check(*found->second, "memory of the device");
  device_blocks.erase(found);
  --live["memory"];
  return SUCCESS;
}
ENTRY cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  BEGIN;
  if (bytes == 0) return INVALID_VALUE;
  if (breaks_own_capture()) return CAPTURE_UNSUPPORTED;
  Block* block = allocate(bytes);
  block->address = (uint64_t)block->inside;
  host_blocks[block->address].reset(block);
  *pointer = block->inside;
  ++live["pinned memory"];
  return SUCCESS;
}
ENTRY cuMemFreeHost(void* pointer) {
  BEGIN;
  auto found = host_blocks.find((uint64_t)pointer);
  if (found == host_blocks.end()) return INVALID_VALUE;
  if (breaks_own_capture()) return CAPTURE_UNSUPPORTED;
  check(*found->second, "pinned memory");
  host_blocks.erase(found);
  --live["pinned memory"];
  return SUCCESS;
}
ENTRY cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  BEGIN;
  if (!reach(to, bytes)) return INVALID_VALUE;
  if (breaks_own_capture()) return CAPTURE_UNSUPPORTED;
  land();
  auto staged = std::make_shared<std::string>((const char*)from, bytes);
  landing.push_back([=] { if (unsigned char* inside = reach(to, staged->size())) memcpy(inside, staged->data(), staged->size()); });
  return SUCCESS;
}
ENTRY cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, Stream* stream) {
  BEGIN;
  if (!reach(to, bytes) || !reach(from, bytes)) return INVALID_VALUE;
  return enqueue(stream, [=] { memmove(reach(to, bytes), reach(from, bytes), bytes); }, COPY);
}
ENTRY cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, Stream* stream) {
  BEGIN;
  if (!reach(to, bytes)) return INVALID_VALUE;
  return enqueue(stream, [=] { memset(reach(to, bytes), value, bytes); });
}
ENTRY cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, Stream* stream) {
  BEGIN;
  if (!reach(to, bytes)) return INVALID_VALUE;
  if (!holder(host_blocks, (uint64_t)from, bytes)) fault("a copy from memory that is not pinned");
  return enqueue(stream, [=] { memcpy(reach(to, bytes), from, bytes); }, COPY);
}
ENTRY cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, Stream* stream) {
  BEGIN;
  if (!reach(from, bytes)) return INVALID_VALUE;
  if (!holder(host_blocks, (uint64_t)to, bytes)) fault("a copy to memory that is not pinned");
  return enqueue(stream, [=] { memcpy(to, reach(from, bytes), bytes); }, COPY);
}

struct Module { std::string image; };
struct Function {
  Module* module;
  void (*kernel)(void**);
  int (*run)(void (*)(void**), void**, const unsigned*, int, int);
  unsigned count;
  int waits;
};
static std::map<Module*, std::vector<std::unique_ptr<Function>>> modules;

ENTRY cuModuleLoadData(Module** module, const unsigned char* image) {
  BEGIN;
  if (memcmp(image, "\x7f""ELF", 4) || image[18] != 190) return INVALID_IMAGE;
  if (breaks_own_capture()) return CAPTURE_UNSUPPORTED;
  // The file ends with the table of its sections or of its segments.
  auto end = [&](size_t table, size_t size_and_count) {
    uint64_t at;
    uint16_t size, count;
    memcpy(&at, image + table, 8);
    memcpy(&size, image + size_and_count, 2);
    memcpy(&count, image + size_and_count + 2, 2);
    return at + (uint64_t)size * count;
  };
  *module = new Module{std::string((const char*)image, std::max(end(32, 54), end(40, 58)))};
  modules[*module];
  ++live["module"];
  return SUCCESS;
}
ENTRY cuModuleUnload(Module* module) {
  BEGIN;
  if (!modules.count(module)) return INVALID_HANDLE;
  if (breaks_own_capture()) return CAPTURE_UNSUPPORTED;
  modules.erase(module);
  delete module;
  --live["module"];
  return SUCCESS;
}
ENTRY cuModuleGetFunction(Function** function, Module* module, const char* name) {
  BEGIN;
  if (!modules.count(module)) return INVALID_HANDLE;
  if (module->image.find(".text." + std::string(name)) == std::string::npos) return NOT_FOUND;
  for (void* library : libraries) {
    void* kernel = dlsym(library, ("run_" + std::string(name)).c_str());
    if (!kernel) continue;
    auto made = std::make_unique<Function>();
    made->module = module;
    made->kernel = (void (*)(void**))kernel;
    made->run = (int (*)(void (*)(void**), void**, const unsigned*, int, int))dlsym(library, "ovolo_run");
    made->count = *(unsigned*)dlsym(library, ("count_" + std::string(name)).c_str());
    made->waits = *(int*)dlsym(library, ("waits_" + std::string(name)).c_str());
    *function = made.get();
    modules[module].push_back(std::move(made));
    return SUCCESS;
  }
  fault("no translation of `" + std::string(name) + "` is registered");
  return NOT_FOUND;
}
ENTRY cuLaunchKernel(Function* function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned rows, unsigned planes,
                     unsigned shared, Stream* stream, void** parameters, void** extra) {
  BEGIN;
  bool known = false;
  for (auto& [module, functions] : modules) for (auto& one : functions) known = known || one.get() == function;
  if (!known) return INVALID_HANDLE;
  if (!x || !y || z != 1 || !threads || !rows || planes != 1 || threads * rows > 1024 || y > 65535 || shared || extra)
    return INVALID_VALUE;
  // Reads the parameters now, as the driver does.
  std::vector<uint64_t> addresses;
  for (unsigned i = 0; i < function->count; ++i) addresses.push_back(*(uint64_t*)parameters[i]);
  for (uint64_t address : addresses) if (!reach(address, 0)) { fault("a parameter is no address of the device"); return INVALID_VALUE; }
  return enqueue(stream, [=] {
    std::vector<void*> pointers;
    for (uint64_t address : addresses) pointers.push_back(reach(address, 0));
    unsigned launch[4] = {x, y, threads, rows};
    if (function->run(function->kernel, pointers.data(), launch, function->waits, order & 1)) fault("not all threads reach a barrier");
  }, KERNEL);
}

ENTRY cuStreamCreate(Stream** stream, unsigned flags) {
  BEGIN;
  if (flags != 1) fault("a stream that waits for the default one");
  streams.insert(*stream = new Stream);
  ++live["stream"];
  return SUCCESS;
}
ENTRY cuStreamDestroy_v2(Stream* stream) {
  BEGIN;
  if (!streams.count(stream)) return INVALID_HANDLE;
  if (!stream->queue.empty()) fault("a stream goes with work on it");
  streams.erase(stream);
  delete stream;
  --live["stream"];
  return SUCCESS;
}
ENTRY cuStreamSynchronize(Stream* stream) {
  BEGIN;
  if (!stream) {
    if (breaks_own_capture()) return CAPTURE_UNSUPPORTED;
    if (ignored != "cuStreamSynchronize of the default stream") land();
    return SUCCESS;
  }
  if (!streams.count(stream)) return INVALID_HANDLE;
  if (stream->capture) { stream->capture->broken = true; return CAPTURE_UNSUPPORTED; }
  drain(stream, nullptr, 0);
  return SUCCESS;
}
ENTRY cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
  BEGIN;
  if (!streams.count(stream) || !events.count(event)) return INVALID_HANDLE;
  if (event->capture) {
    if (stream->capture && stream->capture != event->capture) return CAPTURE_ISOLATION;
    if (ignored == "cuStreamWaitEvent" && stream->capture) return SUCCESS;
    if (!stream->capture) { stream->capture = event->capture; stream->frontier.clear(); }
    stream->capture->streams.insert(stream);
    stream->frontier.insert(event->frontier.begin(), event->frontier.end());
    return SUCCESS;
  }
  if (stream->capture) return CAPTURE_ISOLATION;
  if (ignored == "cuStreamWaitEvent") return SUCCESS;
  if (event->recorded) {
    Work work;
    work.awaits = event;
    work.ticket = event->recorded;
    stream->queue.push_back(work);
  }
  return SUCCESS;
}
ENTRY cuStreamBeginCapture_v2(Stream* stream, int) {
  BEGIN;
  if (!streams.count(stream)) return INVALID_HANDLE;
  if (stream->capture) return CAPTURE_UNSUPPORTED;
  stream->capture = new Capture{stream, {stream}, {}, std::this_thread::get_id()};
  stream->frontier.clear();
  return SUCCESS;
}
ENTRY cuStreamEndCapture(Stream* stream, Graph** graph) {
  BEGIN;
  if (!streams.count(stream)) return INVALID_HANDLE;
  Capture* capture = stream->capture;
  if (!capture) return INVALID_VALUE;
  if (capture->origin != stream) return CAPTURE_UNMATCHED;
  // All work that was queued on other streams must be done before the first stream ends.
  std::set<size_t> before;
  std::vector<size_t> open(stream->frontier.begin(), stream->frontier.end());
  while (!open.empty()) {
    size_t node = open.back();
    open.pop_back();
    if (!before.insert(node).second) continue;
    for (size_t one : capture->graph.nodes[node].after) open.push_back(one);
  }
  bool joined = true;
  for (Stream* other : capture->streams) {
    for (size_t node : other->frontier) joined = joined && before.count(node);
    other->capture = nullptr;
    other->frontier.clear();
  }
  for (Event* event : events) if (event->capture == capture) { event->capture = nullptr; event->frontier.clear(); }
  bool broken = capture->broken;
  *graph = joined && !broken ? new Graph(capture->graph) : nullptr;
  delete capture;
  if (broken) return CAPTURE_INVALIDATED;
  if (!joined) return CAPTURE_UNJOINED;
  graphs.insert(*graph);
  ++live["graph"];
  return SUCCESS;
}

ENTRY cuEventCreate(Event** event, unsigned) {
  BEGIN;
  events.insert(*event = new Event);
  ++live["event"];
  return SUCCESS;
}
ENTRY cuEventDestroy_v2(Event* event) {
  BEGIN;
  if (!events.erase(event)) return INVALID_HANDLE;
  delete event;
  --live["event"];
  return SUCCESS;
}
ENTRY cuEventRecord(Event* event, Stream* stream) {
  BEGIN;
  if (!streams.count(stream) || !events.count(event)) return INVALID_HANDLE;
  event->capture = stream->capture;
  event->frontier = stream->capture ? stream->frontier : std::set<size_t>();
  if (stream->capture) return SUCCESS;
  event->stream = stream;
  Work work;
  work.marks = event;
  work.ticket = ++event->recorded;
  stream->queue.push_back(work);
  return SUCCESS;
}
ENTRY cuEventSynchronize(Event* event) {
  BEGIN;
  if (!events.count(event)) return INVALID_HANDLE;
  if (event->capture) return CAPTURE_UNSUPPORTED;
  if (ignored == "cuEventSynchronize") return SUCCESS;
  if (event->stream && event->done < event->recorded) drain(event->stream, event, event->recorded);
  return SUCCESS;
}

ENTRY cuGraphInstantiateWithFlags(Graph** replay, Graph* graph, unsigned long long) {
  BEGIN;
  if (!graphs.count(graph)) return INVALID_HANDLE;
  replays.insert(*replay = new Graph(*graph));
  ++live["replay"];
  return SUCCESS;
}
ENTRY cuGraphDestroy(Graph* graph) {
  BEGIN;
  if (!graphs.erase(graph)) return INVALID_HANDLE;
  delete graph;
  --live["graph"];
  return SUCCESS;
}
ENTRY cuGraphExecDestroy(Graph* replay) {
  BEGIN;
  if (!replays.erase(replay)) return INVALID_HANDLE;
  delete replay;
  --live["replay"];
  return SUCCESS;
}
ENTRY cuGraphLaunch(Graph* replay, Stream* stream) {
  BEGIN;
  if (!replays.count(replay)) return INVALID_HANDLE;
  return enqueue(stream, [=] { run_graph(*replay); });
}

// For the stand-ins of libraries: work on a stream, and queries about the device.
ENTRY standin_enqueue(Stream* stream, void (*run)(void*), void (*drop)(void*), void* with) {
  Guard guard(lock);
  std::shared_ptr<void> kept(with, drop);
  return enqueue(stream, [=] { run(kept.get()); });
}
extern "C" __attribute__((visibility("default"))) void* standin_reach(uint64_t address, size_t bytes) {
  Guard guard(lock);
  return reach(address, bytes);
}
ENTRY standin_begin(const char* name) { Guard guard(lock); return begin(name, true); }
ENTRY standin_count(const char* what, int more) { Guard guard(lock); live[what] += more; return 0; }
ENTRY standin_fault(const char* what) { Guard guard(lock); fault(what); return 0; }

// For tests.
ENTRY standin_register(const char* path) {
  Guard guard(lock);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) { fprintf(stderr, "%s\n", dlerror()); return 1; }
  libraries.push_back(library);
  return 0;
}
// Sets the order of work that may run in several orders.
ENTRY standin_order(int how, uint64_t with) { Guard guard(lock); order = how; seed = with | 1; return 0; }
// Returns the number of calls of an entry.
ENTRY standin_calls(const char* name) { Guard guard(lock); return (int)calls[name]; }
// Returns how often a copy and a kernel ran out of order since the last question.
ENTRY standin_beside(const char*) {
  Guard guard(lock);
  long count = beside;
  beside = 0;
  return (int)count;
}
// Returns the number of handles of a kind.
ENTRY standin_live(const char* what) {
  Guard guard(lock);
  if (what) return (int)live[what];
  long all = 0;
  for (auto& [name, count] : live) all += count;
  return (int)all;
}
// Makes an entry fail once, after some calls.
ENTRY standin_fail(const char* name, int after, int code) {
  Guard guard(lock);
  failing = name; failing_after = after; failing_code = code;
  return 0;
}
// Sets the bytes of the device, and returns the most MiB that were in use since the last call.
ENTRY standin_memory(size_t bytes) {
  Guard guard(lock);
  int most = (int)(most_taken >> 20);
  memory = bytes;
  most_taken = taken;
  return most;
}
// Makes this thread wait when it next calls an entry, until `standin_leave`.
ENTRY standin_meet(const char* name) {
  std::lock_guard<std::mutex> held(meeting_lock);
  meeting = name;
  met = left = false;
  return 0;
}
// Waits until another thread is at the entry where it waits. Returns whether it came there in time.
ENTRY standin_met(const char*) {
  std::unique_lock<std::mutex> held(meeting_lock);
  return meeting_changed.wait_for(held, std::chrono::seconds(20), [] { return met; });
}
ENTRY standin_leave(const char*) {
  std::lock_guard<std::mutex> held(meeting_lock);
  left = true;
  meeting_changed.notify_all();
  return 0;
}
// Makes an entry do nothing; an empty name resets this.
ENTRY standin_ignore(const char* name) { Guard guard(lock); ignored = name; return 0; }
// Returns the first fault since the last question, and the number of faults.
ENTRY standin_faults(char* text, size_t bytes) {
  Guard guard(lock);
  int count = (int)faults.size();
  snprintf(text, bytes, "%s", count ? faults[0].c_str() : "");
  faults.clear();
  return count;
}
