#include "call_flags.h"

#include "base/error.h"

namespace smla::core {
namespace {

OrderRequest parse_order(const std::string& text) {
  if (text == "auto") return OrderRequest::automatic;
  if (text == "caller") return OrderRequest::callers;
  if (text == "sorted") return OrderRequest::sorted;
  if (text == "throttled") return OrderRequest::sorted_throttled;
  fail(Status::invalid_argument,
       "--order = \"{}\" is not known; known are auto, caller, sorted and throttled", text);
}

}  // namespace

void add_call_flags(CLI::App& app, InputOptions& inputs, std::optional<std::int64_t>& keys,
                    const std::string& default_keys, OrderRequest& order) {
  const std::string lengths = "Lengths and lists";
  app.add_option("--batch", inputs.batch, "Batch entries")->capture_default_str()->group(lengths);
  app.add_option("--queries", inputs.queries, "Query tokens a batch entry")
      ->capture_default_str()
      ->group(lengths);
  app.add_option("--keys", keys, "kv rows a batch entry (default: " + default_keys + ")")->group(lengths);
  app.add_option("--topk", inputs.topk, "Entries of a list")->capture_default_str()->group(lengths);
  app.add_option("--scale", inputs.scale, "Softmax scale (default: (d_v + d_tail)^-1/2)")->group(lengths);
  app.add_option("--query-offset", inputs.query_offset, "Position of query 0, for --causal")->group(lengths);
  app.add_option_function<std::string>(
         "--lists", [&inputs](const std::string& text) { inputs.lists = parse_list_kind(text); },
         "How index lists are drawn")
      ->type_name("random|causal|neighbours")
      ->default_str("random")
      ->group(lengths);
  app.add_option("--list-file", inputs.list_file, "Index lists from a file: B S G topk little-endian int32")
      ->type_name("FILE")
      ->group(lengths);
  app.add_option("--junk-share", inputs.junk_share, "Share of the entries that name no row")
      ->capture_default_str()
      ->group(lengths);
  app.add_option_function<std::string>(
         "--order", [&order](const std::string& text) { order = parse_order(text); },
         "Order in which lists are walked")
      ->type_name("auto|caller|sorted|throttled")
      ->default_str("auto")
      ->group(lengths);
}

}  // namespace smla::core
