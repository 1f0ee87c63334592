// cuDNN's operation graphs, on the processor. The attributes of a descriptor are checked against those of its
// kind: names, types and counts, that linked descriptors are finished, and that nothing is set after
// finalizing. A graph has engines as in the library for shapes of its kind: some that round or sum in a
// narrower type, some that no device has, and one that is wrong. A plan computes its graph operation by
// operation when the stream of its handle runs. It has a text from which another process can make it again. To
// finalise a plan from its engine a second time is a fault, because the library takes seconds for it.
#include <functional>
#include <map>
#include <numeric>
#include <sstream>

enum Described {
  POINTWISE = 0, WINDOW = 1, ENGINE = 2, CONFIG = 3, HEURISTIC = 4, PLAN = 5, KNOB = 7, OP_CONVOLUTION = 10, OP_POINTWISE = 13,
  OPERATIONS = 15, PACK = 16, TENSOR = 17, PRODUCT = 18, OP_PRODUCT = 19, REDUCTION = 21, OP_REDUCTION = 22, OP_SOFTMAX = 45,
};
enum Typed { T_HANDLE = 0, T_DATA = 1, T_BOOL = 2, T_INT = 3, T_FLOAT = 4, T_DOUBLE = 5, T_POINTER = 6, T_WINDOW = 7, T_HEURISTIC = 8, T_KNOB = 9, T_NAN = 10, T_NOTE = 11, T_POINTWISE = 14, T_DESCRIPTOR = 15, T_REDUCTION = 18, T_CHAR = 24 };
enum Notes { TENSOR_CORE = 0, REDUCED = 2, NONDETERMINISTIC = 4, STRICT_NAN = 9 };

struct Node;
struct Attribute { int type = -1; std::vector<int64_t> whole; std::vector<double> real; std::vector<Node*> links; std::vector<void*> pointers; size_t count = 0; };
struct TensorOf { int64_t uid; std::vector<int64_t> sizes, strides; int type; bool between, by_value; };
struct OperationOf { int kind; std::vector<int64_t> in; int64_t out; int mode = 0; double slope = 0, alpha = 1; std::vector<int64_t> before, strides, dilations; };
struct GraphOf { std::map<int64_t, TensorOf> tensors; std::vector<OperationOf> operations; std::string text; bool attention = false, nchw = false, chained = false, scores = false, logarithm = false; };
struct EngineOf { int64_t number; std::vector<int> notes; std::vector<std::pair<int, int64_t>> knobs; size_t workspace; bool unsupported = false, wrong = false; };
struct Node {
  int kind;
  bool finished = false;
  std::map<int, Attribute> attributes;
  std::shared_ptr<GraphOf> graph;
  std::shared_ptr<EngineOf> engine;
  std::vector<EngineOf> engines;
  Handle* handle = nullptr;
};
static std::set<Node*> nodes;
// The attributes of the thread's last graph, and its last error. Tests that only plan describe graphs too, beside
// the test whose turn it is.
static thread_local std::string told, refused;

static int no(const std::string& why) { refused = why; return BAD_PARAM; }
EXPORT void cudnnGetLastErrorString(char* to, size_t most) {
  Guard guard(lock);
  snprintf(to, most, "%s", refused.c_str());
  refused.clear();
}

// The attributes of each kind: the type, the count (0 for any), and whether it is required.
struct Takes { int type; size_t count; bool must; int kind = -1; };
static const std::map<int, std::map<int, Takes>> TAKES = {
  {TENSOR, {{900, {T_INT, 1, true}}, {901, {T_DATA, 1, true}}, {902, {T_INT, 4, true}}, {903, {T_INT, 4, true}}, {906, {T_INT, 1, true}}, {907, {T_BOOL, 1, false}}, {908, {T_BOOL, 1, false}}}},
  {POINTWISE, {{0, {T_POINTWISE, 1, true}}, {1, {T_DATA, 1, true}}, {2, {T_NAN, 1, false}}, {5, {T_DOUBLE, 1, false}}, {6, {T_DOUBLE, 1, false}}, {7, {T_DOUBLE, 1, false}}, {8, {T_DOUBLE, 1, false}}}},
  {WINDOW, {{100, {T_DATA, 1, true}}, {101, {T_WINDOW, 1, true}}, {102, {T_INT, 2, true}}, {103, {T_INT, 2, true}}, {104, {T_INT, 2, true}}, {105, {T_INT, 2, true}}, {106, {T_INT, 1, true}}}},
  {PRODUCT, {{1500, {T_DATA, 1, true}}}},
  {OP_CONVOLUTION, {{700, {T_FLOAT, 1, true}}, {701, {T_FLOAT, 1, true}}, {702, {T_DESCRIPTOR, 1, true, WINDOW}}, {703, {T_DESCRIPTOR, 1, true, TENSOR}}, {704, {T_DESCRIPTOR, 1, true, TENSOR}}, {705, {T_DESCRIPTOR, 1, true, TENSOR}}}},
  {OP_POINTWISE, {{750, {T_DESCRIPTOR, 1, true, POINTWISE}}, {751, {T_DESCRIPTOR, 1, true, TENSOR}}, {752, {T_DESCRIPTOR, 1, false, TENSOR}}, {753, {T_DESCRIPTOR, 1, true, TENSOR}}}},
  {OP_PRODUCT, {{1520, {T_DESCRIPTOR, 1, true, TENSOR}}, {1521, {T_DESCRIPTOR, 1, true, TENSOR}}, {1522, {T_DESCRIPTOR, 1, true, TENSOR}}, {1523, {T_DESCRIPTOR, 1, true, PRODUCT}}}},
  {REDUCTION, {{1600, {T_REDUCTION, 1, true}}, {1601, {T_DATA, 1, true}}}},
  {OP_REDUCTION, {{1610, {T_DESCRIPTOR, 1, true, TENSOR}}, {1611, {T_DESCRIPTOR, 1, true, TENSOR}}, {1612, {T_DESCRIPTOR, 1, true, REDUCTION}}}},
  {OP_SOFTMAX, {{3100, {T_DESCRIPTOR, 1, true, TENSOR}}, {3101, {T_DESCRIPTOR, 1, true, TENSOR}}}},
  {OPERATIONS, {{800, {T_HANDLE, 1, true}}, {801, {T_DESCRIPTOR, 0, true}}}},
  {HEURISTIC, {{200, {T_HEURISTIC, 1, true}}, {201, {T_DESCRIPTOR, 1, true, OPERATIONS}}}},
  {PLAN, {{400, {T_HANDLE, 1, true}}, {401, {T_DESCRIPTOR, 1, false, CONFIG}}, {405, {T_CHAR, 0, false}}}},
  {PACK, {{1000, {T_INT, 0, true}}, {1001, {T_POINTER, 0, true}}, {1003, {T_POINTER, 1, true}}}},
  {CONFIG, {}}, {ENGINE, {}}, {KNOB, {}},
};

EXPORT int cudnnBackendCreateDescriptor(int kind, Node** out) {
  Guard guard(lock);
  if (int code = standin_begin(__func__)) return code;
  if (!TAKES.count(kind)) return no("no such descriptor");
  if (kind == OP_SOFTMAX && VERSION < 92100) return no("this version has no softmax");
  nodes.insert(*out = new Node{kind});
  // A process keeps its plans.
  if (kind != PLAN) standin_count("cudnn descriptor", 1);
  return SUCCESS;
}
EXPORT int cudnnBackendDestroyDescriptor(Node* one) {
  Guard guard(lock);
  if (!nodes.erase(one)) { fault("a descriptor is given back twice"); return BAD_PARAM; }
  if (one->kind != PLAN) standin_count("cudnn descriptor", -1);
  delete one;
  return SUCCESS;
}
EXPORT int cudnnBackendSetAttribute(Node* one, int name, int type, int64_t count, const void* from) {
  Guard guard(lock);
  if (int code = standin_begin(__func__)) return code;
  if (!nodes.count(one)) return no("no descriptor");
  std::string at = std::to_string(name) + " of descriptor " + std::to_string(one->kind);
  const auto& takes = TAKES.at(one->kind);
  if (one->finished) { fault("attribute " + at + " is set after it was finished"); return no("finished"); }
  if (!takes.count(name)) { fault("there is no attribute " + at); return no("no such attribute"); }
  const Takes& want = takes.at(name);
  if (want.type != type || count < 1 || (want.count && want.count != (size_t)count)) { fault("attribute " + at + " has another type or count"); return no("type or count"); }
  Attribute set;
  set.type = type;
  set.count = (size_t)count;
  for (int64_t i = 0; i < count; ++i) switch (type) {
    case T_INT: set.whole.push_back(((const int64_t*)from)[i]); break;
    case T_FLOAT: set.real.push_back(((const float*)from)[i]); break;
    case T_DOUBLE: set.real.push_back(((const double*)from)[i]); break;
    case T_CHAR: set.whole.push_back(((const char*)from)[i]); break;
    case T_BOOL: set.whole.push_back(((const unsigned char*)from)[i]); break;
    case T_POINTER: case T_HANDLE: set.pointers.push_back(((void* const*)from)[i]); break;
    case T_DESCRIPTOR: {
      Node* link = ((Node* const*)from)[i];
      if (!nodes.count(link) || !link->finished || (want.kind >= 0 && link->kind != want.kind)) { fault("attribute " + at + " is no finished descriptor of its kind"); return no("link"); }
      set.links.push_back(link);
      break;
    }
    default: set.whole.push_back(((const int*)from)[i]); break;
  }
  one->attributes[name] = set;
  return SUCCESS;
}

static int64_t whole(const Node* one, int name, int64_t otherwise = 0) {
  auto found = one->attributes.find(name);
  return found == one->attributes.end() ? otherwise : found->second.whole[0];
}
static Node* link(const Node* one, int name) {
  auto found = one->attributes.find(name);
  return found == one->attributes.end() ? nullptr : found->second.links[0];
}
static std::string list(const std::vector<int64_t>& values) {
  std::string text;
  for (int64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return "[" + text + "]";
}
static int64_t take(GraphOf& graph, const Node* one) {
  if (!one) return 0;
  TensorOf tensor{whole(one, 906), one->attributes.at(902).whole, one->attributes.at(903).whole, number((int)whole(one, 901)), whole(one, 907) != 0, whole(one, 908) != 0};
  if (whole(one, 900) % 16) fault("a tensor that begins on less than 16 bytes");
  graph.tensors.emplace(tensor.uid, tensor);
  return tensor.uid;
}

// Whether a size equals another one or can be repeated to it.
static bool repeats(const TensorOf& from, const TensorOf& to) {
  for (int d = 0; d < 4; ++d) if (from.sizes[d] != 1 && from.sizes[d] != to.sizes[d]) return false;
  return true;
}

static int describe(Node* one) {
  auto graph = std::make_shared<GraphOf>();
  one->handle = (Handle*)one->attributes.at(800).pointers[0];
  if (!there.count(one->handle)) return no("no handle");
  std::ostringstream text;
  std::set<int64_t> made;
  for (Node* op : one->attributes.at(801).links) {
    OperationOf now{op->kind, {}, 0};
    switch (op->kind) {
      case OP_CONVOLUTION: {
        Node* window = link(op, 702);
        now.in = {take(*graph, link(op, 704)), take(*graph, link(op, 703))};
        now.out = take(*graph, link(op, 705));
        now.before = window->attributes.at(105).whole;
        now.strides = window->attributes.at(103).whole;
        now.dilations = window->attributes.at(102).whole;
        std::vector<int64_t> after = window->attributes.at(104).whole;
        const TensorOf &x = graph->tensors.at(now.in[0]), &w = graph->tensors.at(now.in[1]), &y = graph->tensors.at(now.out);
        for (int axis = 0; axis < 2; ++axis) {
          int64_t reach = (w.sizes[2 + axis] - 1) * now.dilations[axis] + 1;
          if (y.sizes[2 + axis] != (x.sizes[2 + axis] + now.before[axis] + after[axis] - reach) / now.strides[axis] + 1) return no("a convolution's sizes");
        }
        if (x.sizes[0] != y.sizes[0] || w.sizes[0] != y.sizes[1] || x.sizes[1] % w.sizes[1] || y.sizes[1] % (x.sizes[1] / w.sizes[1])) return no("a convolution's channels");
        if (whole(window, 101) != 1 || whole(window, 106) != 2 || whole(window, 100) != FLOAT) return no("a convolution's mode");
        graph->nchw = x.strides[3] == 1 && x.strides[1] != 1;
        text << "convolution " << now.in[0] << " " << now.in[1] << " -> " << now.out << " pads " << list(now.before) << list(after) << " strides " << list(now.strides) << " dilations " << list(now.dilations) << "\n";
        break;
      }
      case OP_POINTWISE: {
        Node* function = link(op, 750);
        now.mode = (int)whole(function, 0);
        now.in = {take(*graph, link(op, 751))};
        bool two = now.mode < 10 && now.mode != 4;
        graph->logarithm |= now.mode == 15;
        if (two != (link(op, 752) != nullptr)) { fault("a pointwise operation has too few operands, or too many"); return no("operands"); }
        if (two) now.in.push_back(take(*graph, link(op, 752)));
        now.out = take(*graph, link(op, 753));
        if (function->attributes.count(5)) now.slope = function->attributes.at(5).real[0];
        if (function->attributes.count(6)) now.alpha = function->attributes.at(6).real[0];
        for (int64_t in : now.in) if (!repeats(graph->tensors.at(in), graph->tensors.at(now.out))) return no("sizes of a pointwise operation");
        if (now.mode != 0 && !(now.mode == 100 && now.slope == 0)) graph->chained = true;
        text << "pointwise " << now.mode << " " << list(now.in) << " -> " << now.out << "\n";
        break;
      }
      case OP_PRODUCT: {
        now.in = {take(*graph, link(op, 1520)), take(*graph, link(op, 1521))};
        now.out = take(*graph, link(op, 1522));
        const TensorOf &a = graph->tensors.at(now.in[0]), &b = graph->tensors.at(now.in[1]), &y = graph->tensors.at(now.out);
        if (a.sizes[3] != b.sizes[2] || a.sizes[2] != y.sizes[2] || b.sizes[3] != y.sizes[3] || a.sizes[1] != b.sizes[1]) return no("a product's sizes");
        graph->attention = true;
        text << "product " << list(now.in) << " -> " << now.out << "\n";
        break;
      }
      case OP_REDUCTION: {
        now.mode = (int)whole(link(op, 1612), 1600);
        if (now.mode != 0 && now.mode != 3) return no("a reduction's function");
        now.in = {take(*graph, link(op, 1610))};
        now.out = take(*graph, link(op, 1611));
        const TensorOf &x = graph->tensors.at(now.in[0]), &y = graph->tensors.at(now.out);
        for (int d = 0; d < 4; ++d) if (y.sizes[d] != (d == 3 ? 1 : x.sizes[d])) return no("a reduction's sizes");
        graph->scores = true;
        text << "reduction " << now.mode << " " << now.in[0] << " -> " << now.out << "\n";
        break;
      }
      case OP_SOFTMAX:
        now.in = {take(*graph, link(op, 3100))};
        now.out = take(*graph, link(op, 3101));
        text << "softmax " << now.in[0] << " -> " << now.out << "\n";
        break;
      default: return no("no operation");
    }
    for (int64_t in : now.in) {
      const TensorOf& tensor = graph->tensors.at(in);
      if (tensor.between && !made.count(in)) { fault("an operation reads what none before it made"); return no("order"); }
    }
    if (!made.insert(now.out).second) return no("two operations make one value");
    graph->operations.push_back(now);
  }
  int stored = 0;
  for (const auto& [uid, tensor] : graph->tensors) {
    text << uid << ": type " << tensor.type << " " << list(tensor.sizes) << " by " << list(tensor.strides) << (tensor.between ? " between" : tensor.by_value ? " by value" : "") << "\n";
    if (made.count(uid) && !tensor.between) ++stored;
  }
  if (stored != 1) { fault("a graph stores other than one value"); return no("results"); }
  told = graph->text = text.str();
  one->graph = graph;
  return SUCCESS;
}

// The engines for a graph in a heuristic mode: 3 is A, 1 is B, 2 is the fallback.
static std::vector<EngineOf> engines(const GraphOf& graph, int64_t mode) {
  int type = F32;
  size_t bytes = 0;
  for (const auto& entry : graph.tensors) if (!entry.second.between && !entry.second.by_value) {
    size_t count = 1;
    for (int64_t size : entry.second.sizes) count *= (size_t)size;
    bytes += count * size_of(entry.second.type);
    type = entry.second.type;
  }
  if (graph.attention) {
    if (type == F32 || mode == 2) return {};
    // A composed softmax is recognised by the logarithm of its sums.
    if (graph.scores && !graph.logarithm) return {};
    return {{2, {TENSOR_CORE}, {{24, 1}}, 256}, {1, {TENSOR_CORE}, {}, 0}, {3, {TENSOR_CORE}, {}, 0, true}};
  }
  if (graph.nchw && graph.chained) return {};
  size_t moved = graph.nchw ? bytes : 131;
  if (mode == 2) return {{11, {}, {}, 0}, {44, {}, {{2, 1}}, moved}, {0, {STRICT_NAN}, {}, 0, false, true}};
  return {{41, {TENSOR_CORE}, {{2, 1}}, moved}, {41, {TENSOR_CORE}, {{2, 4}}, moved}, {48, {TENSOR_CORE, REDUCED}, {}, 0, false, true},
          {44, {}, {{2, 1}}, moved}, {50, {NONDETERMINISTIC}, {}, 0, false, true}, {60, {}, {}, 0, true}};
}

// How often each plan was finalised from its engine.
static std::map<std::string, long> finalised;
static long from_engines, from_texts;
// The number of an engine that no device has, for one thread: -1 is none, and -2 is all of them.
static thread_local int64_t unfit = -1;
// The number of an engine whose plans need more scratch than it reports, and how much; for one thread, in the same way.
static thread_local int64_t greedy = -1;
static const size_t GREED = 1 << 20;

static std::string identity(const GraphOf& graph, const EngineOf& engine) {
  std::ostringstream text;
  text << graph.text << "engine " << engine.number;
  for (const auto& knob : engine.knobs) text << " " << knob.first << "=" << knob.second;
  return text.str();
}
// The text of a plan: the version, its graph and its engine, all as numbers.
struct Writer {
  std::ostringstream text;
  template <class T> void number(T& value) { text << " " << value; }
  template <class T> void list(std::vector<T>& values) { text << " " << values.size(); for (T& value : values) number(value); }
};
struct Reader {
  std::istringstream text;
  template <class T> void number(T& value) { text >> value; }
  template <class T> void list(std::vector<T>& values) { size_t count = 0; text >> count; values.resize(text ? std::min(count, (size_t)99) : 0); for (T& value : values) number(value); }
};
template <class By> static void pass(By& by, TensorOf& t) { by.number(t.uid); by.list(t.sizes); by.list(t.strides); by.number(t.type); by.number(t.between); by.number(t.by_value); }
template <class By> static void pass(By& by, OperationOf& op) {
  by.number(op.kind); by.list(op.in); by.number(op.out); by.number(op.mode); by.number(op.slope); by.number(op.alpha);
  by.list(op.before); by.list(op.strides); by.list(op.dilations);
}
template <class By> static void pass(By& by, EngineOf& engine) { by.number(engine.number); by.list(engine.notes); by.number(engine.workspace); by.number(engine.wrong); }
static std::string text_of(const GraphOf& graph, const EngineOf& engine) {
  Writer by;
  int version = VERSION;
  by.text.precision(17);
  by.number(version);
  size_t tensors = graph.tensors.size(), operations = graph.operations.size();
  by.number(tensors);
  for (auto [uid, tensor] : graph.tensors) pass(by, tensor);
  by.number(operations);
  for (auto operation : graph.operations) pass(by, operation);
  auto copy = engine;
  pass(by, copy);
  return "plan" + by.text.str() + " end";
}
static bool read_text(const std::string& text, GraphOf& graph, EngineOf& engine) {
  if (text.compare(0, 4, "plan")) return false;
  Reader by{std::istringstream(text.substr(4))};
  int version = 0;
  size_t tensors = 0, operations = 0;
  by.number(version);
  if (version != VERSION) return false;
  by.number(tensors);
  for (size_t i = 0; by.text && i < tensors; ++i) { TensorOf one; pass(by, one); graph.tensors.emplace(one.uid, one); }
  by.number(operations);
  for (size_t i = 0; by.text && i < operations; ++i) { OperationOf one{0, {}, 0}; pass(by, one); graph.operations.push_back(one); }
  pass(by, engine);
  std::string end;
  by.text >> end;
  return end == "end";
}

// Finalises a plan from its text or its engine.
static int finish_plan(Node* one) {
  one->handle = (Handle*)one->attributes.at(400).pointers[0];
  if (!there.count(one->handle)) return no("no handle");
  if (one->attributes.count(405)) {
    const auto& characters = one->attributes.at(405).whole;
    one->graph = std::make_shared<GraphOf>();
    one->engine = std::make_shared<EngineOf>();
    if (!read_text(std::string(characters.begin(), characters.end()), *one->graph, *one->engine)) { refused = "no text of a plan of this version"; return NOT_SUPPORTED; }
    ++from_texts;
    return SUCCESS;
  }
  Node* config = link(one, 401);
  if (!config) { fault("a plan has neither an engine nor a text"); return no("no engine"); }
  one->graph = config->graph;
  one->engine = config->engine;
  if (one->engine->unsupported || unfit == -2 || unfit == one->engine->number) { refused = "no device has this engine"; return NOT_SUPPORTED; }
  if (greedy == -2 || greedy == one->engine->number) {
    one->engine = std::make_shared<EngineOf>(*one->engine);
    one->engine->workspace += GREED;
  }
  ++from_engines;
  if (++finalised[identity(*one->graph, *one->engine)] > 1) fault("a plan is finalised again: " + identity(*one->graph, *one->engine));
  return SUCCESS;
}

EXPORT int cudnnBackendFinalize(Node* one) {
  Guard guard(lock);
  if (int code = standin_begin(__func__)) return code;
  if (!nodes.count(one) || one->finished) return no("no descriptor, or a finished one");
  for (const auto& [name, takes] : TAKES.at(one->kind))
    if (takes.must && !one->attributes.count(name)) { fault("descriptor " + std::to_string(one->kind) + " lacks attribute " + std::to_string(name)); return no("an attribute is missing"); }
  if (one->kind == OPERATIONS) if (int code = describe(one)) return code;
  if (one->kind == HEURISTIC) one->engines = engines(*link(one, 201)->graph, whole(one, 200));
  if (one->kind == HEURISTIC) one->graph = link(one, 201)->graph;
  if (one->kind == PLAN) if (int code = finish_plan(one)) return code;
  if (one->kind == PACK && one->attributes.at(1000).count != one->attributes.at(1001).count) return no("names and addresses");
  one->finished = true;
  return SUCCESS;
}

static int give(int64_t have, int64_t room, int64_t* count, const std::function<void(int64_t)>& write) {
  *count = have;
  for (int64_t i = 0; i < std::min(have, room); ++i) write(i);
  return SUCCESS;
}
EXPORT int cudnnBackendGetAttribute(Node* one, int name, int type, int64_t room, int64_t* count, void* to) {
  Guard guard(lock);
  if (int code = standin_begin(__func__)) return code;
  if (!nodes.count(one) || !one->finished) { fault("an attribute of what is not finished is read"); return no("not finished"); }
  auto fill = [&](int64_t at, int kind) -> Node* {
    Node* into = ((Node**)to)[at];
    if (!nodes.count(into) || into->kind != kind) { fault("a result has no descriptor of its kind"); return new Node{kind}; }
    into->finished = true;
    return into;
  };
  auto is = [&](int kind, int wanted, int of) { return one->kind == kind && name == wanted && type == of; };
  if (is(HEURISTIC, 202, T_DESCRIPTOR)) return give((int64_t)one->engines.size(), room, count, [&](int64_t at) {
    Node* into = fill(at, CONFIG);
    into->graph = one->graph;
    into->engine = std::make_shared<EngineOf>(one->engines[(size_t)at]);
  });
  if (is(CONFIG, 300, T_DESCRIPTOR)) return give(1, room, count, [&](int64_t at) { fill(at, ENGINE)->engine = one->engine; });
  if (is(CONFIG, 302, T_DESCRIPTOR)) return give((int64_t)one->engine->knobs.size(), room, count, [&](int64_t at) {
    auto knob = one->engine->knobs[(size_t)at];
    Node* into = fill(at, KNOB);
    into->attributes[600].whole = {knob.first};
    into->attributes[601].whole = {knob.second};
  });
  if (is(CONFIG, 303, T_INT) || is(PLAN, 402, T_INT)) return give(1, room, count, [&](int64_t at) { ((int64_t*)to)[at] = (int64_t)one->engine->workspace; });
  if (is(PLAN, 405, T_CHAR)) {
    std::string text = text_of(*one->graph, *one->engine);
    return give((int64_t)text.size(), room, count, [&](int64_t at) { ((char*)to)[at] = text[(size_t)at]; });
  }
  if (is(ENGINE, 1301, T_INT)) return give(1, room, count, [&](int64_t at) { ((int64_t*)to)[at] = one->engine->number; });
  if (is(ENGINE, 1303, T_NOTE)) return give((int64_t)one->engine->notes.size(), room, count, [&](int64_t at) { ((int*)to)[at] = one->engine->notes[(size_t)at]; });
  if (is(KNOB, 600, T_KNOB)) return give(1, room, count, [&](int64_t at) { ((int*)to)[at] = (int)whole(one, 600); });
  if (is(KNOB, 601, T_INT)) return give(1, room, count, [&](int64_t at) { ((int64_t*)to)[at] = whole(one, 601); });
  fault("there is no attribute " + std::to_string(name) + " to read of descriptor " + std::to_string(one->kind));
  return no("no such attribute");
}

// The values of a tensor in the order of its sizes.
typedef std::vector<double> Values;
static size_t elements(const TensorOf& t) { return (size_t)(t.sizes[0] * t.sizes[1] * t.sizes[2] * t.sizes[3]); }
template <class Each> static void each(const TensorOf& t, Each each) {
  size_t at = 0;
  for (int64_t a = 0; a < t.sizes[0]; ++a) for (int64_t b = 0; b < t.sizes[1]; ++b) for (int64_t c = 0; c < t.sizes[2]; ++c) for (int64_t d = 0; d < t.sizes[3]; ++d) {
    int64_t place[4] = {a, b, c, d};
    each(at++, place);
  }
}
static size_t offset(const TensorOf& t, const int64_t* place) {
  int64_t sum = 0;
  for (int d = 0; d < 4; ++d) sum += t.sizes[d] == 1 ? 0 : place[d] * t.strides[d];
  return (size_t)sum;
}
static size_t dense(const TensorOf& t, const int64_t* place) {
  int64_t at = 0;
  for (int d = 0; d < 4; ++d) at = at * t.sizes[d] + (t.sizes[d] == 1 ? 0 : place[d]);
  return (size_t)at;
}
static size_t bytes_of(const TensorOf& t) {
  int64_t last = 1;
  for (int d = 0; d < 4; ++d) last += (t.sizes[d] - 1) * t.strides[d];
  return (size_t)last * size_of(t.type);
}
static double applied(const OperationOf& op, double x, double b) {
  switch (op.mode) {
    case 0: return x + b;
    case 1: return x * b;
    case 2: return std::min(x, b);
    case 3: return std::max(x, b);
    case 4: return std::sqrt(x);
    case 6: return x / b;
    case 9: return x - b;
    case 10: return std::fabs(x);
    case 13: return std::exp(x);
    case 15: return std::log(x);
    case 16: return -x;
    case 20: return std::erf(x);
    case 100: return x > 0 ? x : x * op.slope;
    case 101: return std::tanh(x);
    case 102: return 1 / (1 + std::exp(-x));
    case 103: return x > 0 ? x : op.alpha * std::expm1(x);
    case 104: return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
    case 105: return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
    case 106: return x / (1 + std::exp(-x));
    case 107: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    default: return NAN;
  }
}
static void compute(const GraphOf& graph, const EngineOf& engine, const std::map<int64_t, void*>& at) {
  std::map<int64_t, Values> values;
  bool rounds = std::count(engine.notes.begin(), engine.notes.end(), (int)TENSOR_CORE) > 0;
  for (const auto& [uid, tensor] : graph.tensors) {
    Values& to = values[uid];
    to.resize(elements(tensor));
    if (tensor.by_value) to[0] = *(const float*)at.at(uid);
    else if (!tensor.between) {
      const TensorOf& of = tensor;
      each(of, [&](size_t i, const int64_t* place) { to[i] = read_number(of.type, at.at(of.uid), offset(of, place)); });
    }
  }
  for (const OperationOf& op : graph.operations) {
    const TensorOf& y = graph.tensors.at(op.out);
    const TensorOf& x = graph.tensors.at(op.in[0]);
    Values& to = values[op.out];
    Values a = values[op.in[0]], b = op.in.size() > 1 ? values[op.in[1]] : Values();
    if (op.kind == OP_CONVOLUTION || op.kind == OP_PRODUCT) {
      if (rounds && x.type == F32 && !x.between) for (Values* one : {&a, &b}) for (double& value : *one) value = tf32(value);
    }
    if (op.kind == OP_CONVOLUTION) {
      const TensorOf& w = graph.tensors.at(op.in[1]);
      int64_t inputs = w.sizes[1], outputs = y.sizes[1] / (x.sizes[1] / inputs);
      each(y, [&](size_t i, const int64_t* p) {
        double sum = 0;
        for (int64_t c = 0; c < inputs; ++c) for (int64_t r = 0; r < w.sizes[2]; ++r) for (int64_t s = 0; s < w.sizes[3]; ++s) {
          int64_t from[4] = {p[0], p[1] / outputs * inputs + c, p[2] * op.strides[0] + r * op.dilations[0] - op.before[0], p[3] * op.strides[1] + s * op.dilations[1] - op.before[1]};
          int64_t weight[4] = {p[1], c, r, s};
          if (from[2] < 0 || from[2] >= x.sizes[2] || from[3] < 0 || from[3] >= x.sizes[3]) continue;
          sum += a[dense(x, from)] * b[dense(w, weight)];
        }
        to[i] = sum;
      });
    } else if (op.kind == OP_PRODUCT) {
      const TensorOf& k = graph.tensors.at(op.in[1]);
      each(y, [&](size_t i, const int64_t* p) {
        double sum = 0;
        for (int64_t d = 0; d < x.sizes[3]; ++d) {
          int64_t left[4] = {p[0], p[1], p[2], d}, right[4] = {p[0], p[1], d, p[3]};
          sum += a[dense(x, left)] * b[dense(k, right)];
        }
        to[i] = sum;
      });
    } else if (op.kind == OP_REDUCTION) {
      size_t row = (size_t)x.sizes[3];
      for (size_t i = 0; i < to.size(); ++i) {
        auto begin = a.begin() + (long)(i * row), end = begin + (long)row;
        to[i] = op.mode == 3 ? *std::max_element(begin, end) : std::accumulate(begin, end, 0.0);
      }
    } else if (op.kind == OP_SOFTMAX) {
      size_t row = (size_t)x.sizes[3];
      for (size_t start = 0; start < a.size(); start += row) {
        double most = *std::max_element(a.begin() + (long)start, a.begin() + (long)(start + row)), sum = 0;
        for (size_t i = start; i < start + row; ++i) sum += to[i] = std::exp(a[i] - most);
        for (size_t i = start; i < start + row; ++i) to[i] /= sum;
      }
    } else {
      const TensorOf* second = op.in.size() > 1 ? &graph.tensors.at(op.in[1]) : nullptr;
      each(y, [&](size_t i, const int64_t* p) { to[i] = applied(op, a[dense(x, p)], second ? b[dense(*second, p)] : 0); });
    }
    if (!y.between) each(y, [&](size_t i, const int64_t* p) { write_number(y.type, at.at(y.uid), offset(y, p), to[i] + (engine.wrong ? 1 : 0)); });
    else for (double& value : to) { uint64_t one; write_number(y.type, &one, 0, value); value = read_number(y.type, &one, 0); }
  }
}

EXPORT int cudnnBackendExecute(Handle* handle, Node* plan, Node* pack) {
  Guard guard(lock);
  if (int code = standin_begin(__func__)) return code;
  if (!there.count(handle) || !nodes.count(plan) || !nodes.count(pack) || !plan->finished || !pack->finished) return no("what is not finished is run");
  if (plan->handle != handle) fault("a plan runs with another handle");
  if (!has_stream(handle)) { fault("a graph on no stream"); return no("no stream"); }
  const auto& graph = plan->graph;
  const auto& engine = plan->engine;
  std::map<int64_t, void*> at;
  const auto& names = pack->attributes.at(1000).whole;
  for (size_t i = 0; i < names.size(); ++i) at[names[i]] = pack->attributes.at(1001).pointers[i];
  for (const auto& [uid, tensor] : graph->tensors) {
    if (tensor.between != !at.count(uid)) { fault("value " + std::to_string(uid) + " of a graph has no address, or needs none"); return no("addresses"); }
    if (tensor.between || tensor.by_value) continue;
    void* found = standin_reach((uint64_t)at[uid], bytes_of(tensor));
    if (!found || (uint64_t)at[uid] % 16) { fault("value " + std::to_string(uid) + " of a graph is not on the device, or does not begin on 16 bytes"); return no("addresses"); }
    at[uid] = found;
  }
  if (at.size() != names.size() || at.size() != (size_t)std::count_if(graph->tensors.begin(), graph->tensors.end(), [](const auto& one) { return !one.second.between; })) { fault("a graph has addresses of what it does not know"); return no("addresses"); }
  void* scratch = nullptr;
  if (engine->workspace) {
    void* given = pack->attributes.at(1003).pointers[0];
    scratch = standin_reach((uint64_t)given, engine->workspace);
    if (!scratch || (uint64_t)given % 256) { fault("a graph's scratch is not on the device, or does not begin on 256 bytes"); return no("scratch"); }
  }
  int delay = delays[64 + engine->number % 64];
  return queue_call(handle->stream, [=] {
    if (delay) usleep((unsigned)delay);
    if (scratch) memset(scratch, 0x5a, engine->workspace);
    compute(*graph, *engine, at);
  }) ? EXECUTION_FAILED : SUCCESS;
}

// For tests: the number of plans that were finalised from engines, or from texts.
EXPORT int standin_finalised(int texts) { Guard guard(lock); return (int)(texts ? from_texts : from_engines); }
// Sets the engine that no device has; it returns the one before.
EXPORT int standin_unfit(int engine) { Guard guard(lock); int before = (int)unfit; unfit = engine; return before; }
// Sets the engine whose plans need more scratch than it reports; it returns the one before.
EXPORT int standin_greedy(int engine) { Guard guard(lock); int before = (int)greedy; greedy = engine; return before; }
// Returns the attributes of the thread's last graph.
EXPORT int standin_told(char* to, size_t most) {
  Guard guard(lock);
  snprintf(to, most, "%s", told.c_str());
  return (int)told.size();
}
