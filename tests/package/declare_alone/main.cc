// Declares a vision encoder's attention and this step's segments; exit 0 if each came out as said.

#include <cstdio>
#include <string>

#include <ragged/declare.hpp>
#include <ragged/version.hpp>

int main() {
  ragged::RaggedAttentionSpec spec{
      .resource_key = "vision",
      .nodes = {"encoder"},
      .config = {
          .num_qo_heads = 16, .num_kv_heads = 16, .head_dim = 72, .max_segments_per_request = 4}};
  spec.config.validate();
  spec.config.shard(4);
  const ragged::AttentionStep step{
      .segments = {{{.request_id = "a", .span = 729}, {.request_id = "b", .span = 0}}}};
  const bool right = spec.config.num_qo_heads == 4 && spec.config.max_segments_for(3) == 12 &&
                     spec.resource_class() == "ragged::RaggedAttentionManager" &&
                     step.segments->at(1).label == "main" &&
                     ragged::cross_label("q", "kv") == "q<-kv";
  std::printf("ragged %s, declared '%s': %s\n", RAGGED_VERSION, spec.resource_key.c_str(),
              right ? "right" : "wrong");
  return right ? 0 : 1;
}
