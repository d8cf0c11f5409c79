mod plain {
    use crate::{laws::laws, softmax::Softmax};

    laws!(Softmax(-1));
}

mod log {
    use crate::{laws::laws, softmax::LogSoftmax};

    laws!(LogSoftmax(-1));
}

/// Down the columns of a matrix, where other kernels run. Their layouts, sizes and rows are in `dims`.
macro_rules! columns {
    ($module:ident, $op:ident) => {
        mod $module {
            use crate::{
                laws::{large::past, laws},
                softmax::$op,
            };

            laws! { $op(0) =>
                checkpointing { same_bits_when_recomputed }
                graph { only_what_is_tracked, inputs_outside_autodiff, output_used_twice, residual }
                in_place {
                    needed_by_the_graph, gradients, one_buffer_for_all, buffers_are_reused,
                }
                memory { outputs_are_written_whole, inputs_are_left_alone, neighbours_are_left_alone, what_is_kept }
                repeats { alone, on_a_busy_device, in_other_memory }
                threads { four_at_once, input_from_another_thread, from_hand_to_hand, moved_from_hand_to_hand }
            }

            #[test]
            fn past_32_bits_of_elements() {
                past($op(0), $op(1), "past_32_bits_down_columns", 32);
            }
        }
    };
}
columns!(plain_down_columns, Softmax);
columns!(log_down_columns, LogSoftmax);
