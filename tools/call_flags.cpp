#include "call_flags.h"

#include "base/error.h"

namespace smla::core {
namespace {

OrderRequest parse_order(const std::string& text) {
  if (const auto order = find_order(text)) return *order;
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
  const auto share = [&](const char* flag, double& target, const char* description) {
    app.add_option(flag, target, description)->capture_default_str()->group(lengths);
  };
  share("--neighbour-share", inputs.neighbour_share,
        "With --lists neighbours: the part that 64 tokens have in common");
  share("--junk-share", inputs.junk_share, "Share of the entries that name no row");
  share("--hole-share", inputs.hole_share, "Share of the entries that are -1");
  share("--duplicate-share", inputs.duplicate_share,
        "Share of the entries that repeat another of their list");
  share("--dead-share", inputs.dead_share, "Share of the lists that hold nothing but -1");
  app.add_flag("--sorted-lists", inputs.sorted_lists, "Lists ascend")->group(lengths);
  app.add_flag("--length-per-group", inputs.length_per_group,
               "With --topk-length: a length a token and group, not one a token")
      ->group(lengths);
  app.add_option_function<std::string>(
         "--order", [&order](const std::string& text) { order = parse_order(text); },
         "Order in which lists are walked")
      ->type_name("auto|caller|sorted|throttled")
      ->default_str("auto")
      ->group(lengths);
}

}  // namespace smla::core
