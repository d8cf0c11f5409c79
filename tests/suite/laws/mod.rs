//! What holds for every op. `laws!(op)` makes tests of it all in the module of an op.

pub mod checkpointing;
pub mod graph;
pub mod grid;
pub mod large;
pub mod layouts;
pub mod memory;
pub mod repeats;
pub mod rows;
pub mod slopes;
pub mod threads;

macro_rules! laws {
    ($op:expr) => {
        crate::laws::laws! { $op =>
            checkpointing { same_bits_when_recomputed }
            graph { only_what_is_tracked, inputs_outside_autodiff, output_used_twice, residual }
            grid {
                every_row_length, every_row_count, lengths_and_counts, ranks, mixed_types,
                sums_over_rows,
            }
            large { past_32_bits_of_elements }
            layouts { inputs_and_gradients, parameters, gradients_of_other_ops, anything }
            memory { outputs_are_written_whole, inputs_are_left_alone }
            repeats { alone, on_a_busy_device, in_other_memory }
            rows { alone_and_in_a_batch, in_another_order, in_chunks }
            slopes { of_the_input, of_the_parameters }
            threads { four_at_once }
        }
    };
    ($op:expr => $($module:ident { $($test:ident),+ $(,)? })+) => {
        $(mod $module {
            use super::*;
            $(#[test]
            fn $test() {
                crate::laws::$module::$test($op);
            })+
        })+
    };
}
pub(crate) use laws;
