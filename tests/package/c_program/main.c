// Declares, plans and runs each of the four kinds through the C interface, and a resource through
// the manager; compares every row with a double-precision sum of its own. Exit 0 if all agree.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <ragged/ragged.h>

#include "expected.h"

enum { HEADS = 2, DIM = 24, ROW = HEADS * DIM, MAX_ROWS = 128 };

static float q[MAX_ROWS * ROW], k[MAX_ROWS * ROW], v[MAX_ROWS * ROW], out[MAX_ROWS * ROW];
static float prefix_k[MAX_ROWS * ROW], prefix_v[MAX_ROWS * ROW];

static void must(int code, const char* what) {
  if (code == RAGGED_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, ragged_error_name(code), ragged_last_error());
  exit(1);
}

static void must_agree(double difference, const char* what) {
  printf("%-28s largest difference %.2g\n", what, difference);
  if (difference <= 2e-6) return;
  fprintf(stderr, "%s: the difference is too large\n", what);
  exit(1);
}

// So that a row left from the run before never passes for this one's.
static void forget_out(void) {
  for (int i = 0; i < MAX_ROWS * ROW; ++i) out[i] = NAN;
}

static ragged_wrapper* create(ragged_kind kind, int64_t block_size) {
  const ragged_wrapper_options options = {.struct_size = sizeof options,
                                          .num_qo_heads = HEADS,
                                          .num_kv_heads = HEADS,
                                          .head_dim = DIM,
                                          .q_data_type = RAGGED_DTYPE_FP32,
                                          .block_size = block_size};
  ragged_wrapper* wrapper = NULL;
  must(ragged_wrapper_create(kind, &options, &wrapper), "create");
  return wrapper;
}

// The run of `rows` query rows over `kv_rows` key rows; prefix_rows > 0: of two sources.
static void run(ragged_wrapper* wrapper, int64_t rows, int64_t kv_rows, int64_t prefix_rows) {
  forget_out();
  const ragged_tensor tq = ragged_tensor_packed(q, RAGGED_DTYPE_FP32, rows, HEADS, DIM);
  const ragged_tensor tk = ragged_tensor_packed(k, RAGGED_DTYPE_FP32, kv_rows, HEADS, DIM);
  const ragged_tensor tv = ragged_tensor_packed(v, RAGGED_DTYPE_FP32, kv_rows, HEADS, DIM);
  const ragged_tensor to = ragged_tensor_packed(out, RAGGED_DTYPE_FP32, rows, HEADS, DIM);
  const ragged_tensor pk =
      ragged_tensor_packed(prefix_k, RAGGED_DTYPE_FP32, prefix_rows, HEADS, DIM);
  const ragged_tensor pv =
      ragged_tensor_packed(prefix_v, RAGGED_DTYPE_FP32, prefix_rows, HEADS, DIM);
  ragged_run_arguments arguments = {
      .struct_size = sizeof arguments, .q = &tq, .k = &tk, .v = &tv, .out = &to};
  if (prefix_rows > 0) {
    arguments.prefix_k = &pk;
    arguments.prefix_v = &pv;
  }
  must(ragged_wrapper_run(wrapper, &arguments), "run");
}

// Two segments of 5 and 12 rows, and the same as one after the other.
static const int64_t q_offsets[] = {0, 5, 17};

static double two_segments(const int64_t* kv_offsets, struct mask mask) {
  double worst = 0.0;
  for (int i = 0; i < 2; ++i) {
    const int64_t q0 = q_offsets[i], k0 = kv_offsets[i];
    const double difference =
        worst_difference(q + q0 * ROW, k + k0 * ROW, v + k0 * ROW, out + q0 * ROW,
                         q_offsets[i + 1] - q0, kv_offsets[i + 1] - k0, HEADS, DIM, mask);
    if (difference > worst) worst = difference;
  }
  return worst;
}

static void self_attention(void) {
  ragged_wrapper* wrapper = create(RAGGED_KIND_SELF, 0);
  const ragged_index cu = ragged_index_int64(q_offsets, 3);
  for (int causal = 0; causal < 2; ++causal) {
    must(ragged_wrapper_plan(wrapper, &cu, causal), "plan self");
    run(wrapper, 17, 17, 0);
    must_agree(two_segments(q_offsets, (struct mask){causal, 0}), causal ? "self, causal" : "self");
  }
  ragged_wrapper_destroy(wrapper);
}

static void cross_attention(void) {
  ragged_wrapper* wrapper = create(RAGGED_KIND_CROSS, 0);
  const int64_t kv_offsets[] = {0, 31, 40};
  const ragged_index cu_q = ragged_index_int64(q_offsets, 3);
  const ragged_index cu_kv = ragged_index_int64(kv_offsets, 3);
  must(ragged_wrapper_plan_cross(wrapper, &cu_q, &cu_kv), "plan cross");
  run(wrapper, 17, 40, 0);
  must_agree(two_segments(kv_offsets, (struct mask){0, 0}), "cross");
  ragged_wrapper_destroy(wrapper);
}

static void block_causal_attention(void) {
  ragged_wrapper* wrapper = create(RAGGED_KIND_BLOCK_CAUSAL, 4);
  const ragged_index cu = ragged_index_int64(q_offsets, 3);
  must(ragged_wrapper_plan(wrapper, &cu, 0), "plan block-causal");
  run(wrapper, 17, 17, 0);
  must_agree(two_segments(q_offsets, (struct mask){0, 4}), "block-causal");
  ragged_wrapper_destroy(wrapper);
}

static void prefixed_attention(void) {
  ragged_wrapper* wrapper = create(RAGGED_KIND_PREFIXED, 0);
  const int64_t kv_offsets[] = {0, 12, 24};  // prefixes of 7 and 0 tokens
  const ragged_index cu_q = ragged_index_int64(q_offsets, 3);
  const ragged_index cu_kv = ragged_index_int64(kv_offsets, 3);
  must(ragged_wrapper_plan_prefixed(wrapper, &cu_q, &cu_kv, 1), "plan prefixed");
  run(wrapper, 17, 24, 0);
  must_agree(two_segments(kv_offsets, (struct mask){1, 0}), "prefixed, joined, causal");

  // The same keys in two sources: the joined rows 0..6 are the prefix, the others fresh.
  const int64_t prefix_offsets[] = {0, 7, 7};
  const ragged_index cu_prefix = ragged_index_int64(prefix_offsets, 3);
  static float joined_k[MAX_ROWS * ROW], joined_v[MAX_ROWS * ROW];
  for (int64_t i = 0; i < 24 * ROW; ++i) {
    joined_k[i] = i < 7 * ROW ? prefix_k[i] : k[i - 7 * ROW];
    joined_v[i] = i < 7 * ROW ? prefix_v[i] : v[i - 7 * ROW];
  }
  must(ragged_wrapper_plan_two_sources(wrapper, &cu_q, &cu_prefix, NULL, 1), "plan two sources");
  run(wrapper, 17, 17, 7);
  double worst = 0.0;
  for (int i = 0; i < 2; ++i) {
    const int64_t q0 = q_offsets[i], k0 = kv_offsets[i];
    const double difference = worst_difference(
        q + q0 * ROW, joined_k + k0 * ROW, joined_v + k0 * ROW, out + q0 * ROW,
        q_offsets[i + 1] - q0, kv_offsets[i + 1] - k0, HEADS, DIM, (struct mask){1, 0});
    if (difference > worst) worst = difference;
  }
  must_agree(worst, "prefixed, two sources, causal");
  ragged_wrapper_destroy(wrapper);
}

static void managed_attention(void) {
  const ragged_config config = {.struct_size = sizeof config,
                                .num_qo_heads = HEADS,
                                .num_kv_heads = HEADS,
                                .head_dim = DIM,
                                .dtype = RAGGED_DTYPE_FP32};
  const char* nodes[] = {"encoder"};
  const ragged_spec spec = {.struct_size = sizeof spec,
                            .resource_key = "vision",
                            .nodes = nodes,
                            .num_nodes = 1,
                            .config = &config,
                            .kind = RAGGED_KIND_SELF};
  ragged_manager* manager = NULL;
  must(ragged_manager_create(&spec, NULL, &manager), "create a manager");
  const ragged_segment segments[] = {
      {.struct_size = sizeof segments[0], .request_id = "a", .span = 5},
      {.struct_size = sizeof segments[0], .request_id = "b", .span = 12}};
  const ragged_step step = {
      .struct_size = sizeof step, .has_segments = 1, .segments = segments, .num_segments = 2};
  must(ragged_manager_plan(manager, &step, NULL), "plan a step");
  const ragged_tensor tq = ragged_tensor_packed(q, RAGGED_DTYPE_FP32, 17, HEADS, DIM);
  const ragged_tensor tk = ragged_tensor_packed(k, RAGGED_DTYPE_FP32, 17, HEADS, DIM);
  const ragged_tensor tv = ragged_tensor_packed(v, RAGGED_DTYPE_FP32, 17, HEADS, DIM);
  const ragged_tensor to = ragged_tensor_packed(out, RAGGED_DTYPE_FP32, 17, HEADS, DIM);
  const ragged_run_arguments arguments = {
      .struct_size = sizeof arguments, .q = &tq, .k = &tk, .v = &tv, .out = &to};
  forget_out();
  must(ragged_manager_run(manager, "main", &arguments), "run a label");
  must_agree(two_segments(q_offsets, (struct mask){0, 0}), "manager, label main");
  ragged_manager_destroy(manager);
}

int main(void) {
  printf("ragged %s\n", ragged_version_text());
  fill(q, MAX_ROWS * ROW, 1);
  fill(k, MAX_ROWS * ROW, 2);
  fill(v, MAX_ROWS * ROW, 3);
  fill(prefix_k, MAX_ROWS * ROW, 4);
  fill(prefix_v, MAX_ROWS * ROW, 5);
  self_attention();
  cross_attention();
  block_causal_attention();
  prefixed_attention();
  managed_attention();
  return 0;
}
