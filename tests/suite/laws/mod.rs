//! What holds for every op. `laws!(op)` makes tests of it all in the module of an op.

pub mod checkpointing;
pub mod devices;
pub mod endurance;
pub mod execution;
pub mod failures;
pub mod graph;
pub mod grid;
pub mod in_place;
pub mod large;
pub mod layouts;
pub mod memory;
pub mod numbers;
pub mod properties;
pub mod repeats;
pub mod rows;
pub mod slopes;
pub mod threads;

macro_rules! laws {
    ($op:expr) => {
        crate::laws::laws! { $op =>
            checkpointing { same_bits_when_recomputed }
            devices { moved_to_another }
            endurance { many_steps }
            execution { path_and_accumulator, every_type_runs_or_is_refused }
            failures { more_than_the_device_has }
            graph { only_what_is_tracked, inputs_outside_autodiff, output_used_twice, residual }
            grid {
                every_row_length, every_row_count, lengths_and_counts, ranks, mixed_types,
                sums_over_rows,
            }
            in_place {
                untracked, needed_by_the_graph, needed_by_the_parameters, gradients,
                one_buffer_for_all, buffers_are_reused,
            }
            large {
                past_31_bits_of_elements, past_32_bits_of_elements, columns_past_the_limits,
                a_million_rows,
            }
            layouts { inputs_and_gradients, parameters, gradients_of_other_ops }
            memory { outputs_are_written_whole, inputs_are_left_alone, neighbours_are_left_alone, what_is_kept }
            numbers { not_a_number_stays_in_its_row }
            properties { any_input, any_arguments }
            repeats { alone, on_a_busy_device, in_other_memory }
            rows { alone_and_in_a_batch, in_another_order, in_chunks, after_others }
            slopes { of_the_input, of_the_parameters }
            threads { four_at_once, input_from_another_thread, from_hand_to_hand, moved_from_hand_to_hand }
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
