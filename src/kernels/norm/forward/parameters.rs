use crate::kernels::{
    norm::{factor, head::Head, statistics::Formula},
    plan::Blueprint,
    row::{Length, Row, load, read_any},
    stored::widened,
    team::lane,
};
use cubecl::prelude::*;

/// A unit's part of the parameters, where it is loaded before a row's sums are known.
#[derive(CubeType)]
pub(super) struct Parameters<G: Numeric, B: Numeric, V: Size> {
    gamma: Array<Vector<G, V>>,
    beta: Array<Vector<B, V>>,
    row: Row,
    #[cube(comptime)]
    formula: Formula,
    #[cube(comptime)]
    blueprint: Blueprint,
}

#[cube]
impl<G: Numeric, B: Numeric, V: Size> Parameters<G, B, V> {
    pub fn new(
        gamma: ComptimeOption<&[Vector<G, V>]>,
        beta: ComptimeOption<&[Vector<B, V>]>,
        head: &Head,
        length: &Length,
        #[comptime] formula: Formula,
        #[comptime] blueprint: Blueprint,
    ) -> Self {
        let (row, lane) = (head.parameters(length), lane(blueprint));
        let mut gammas = Array::<Vector<G, V>>::new(blueprint.held);
        let mut betas = Array::<Vector<B, V>>::new(blueprint.held);
        if comptime!(blueprint.parameters) {
            #[comptime]
            match gamma {
                ComptimeOption::Some(gamma) => {
                    load(gamma, &row, lane, length, &mut gammas, blueprint);
                }
                ComptimeOption::None => {}
            }
            #[comptime]
            match beta {
                ComptimeOption::Some(beta) => {
                    load(beta, &row, lane, length, &mut betas, blueprint);
                }
                ComptimeOption::None => {}
            }
        }
        Parameters::<G, B, V> { gamma: gammas, beta: betas, row, formula, blueprint }
    }

    /// `value·γ + β` at the unit's place `i`, which is `column`.
    pub fn applied<A: Float>(
        &self,
        value: Vector<A, V>,
        gamma: ComptimeOption<&[Vector<G, V>]>,
        beta: ComptimeOption<&[Vector<B, V>]>,
        #[comptime] i: usize,
        column: usize,
        length: &Length,
    ) -> Vector<A, V> {
        let mut value = value;
        #[comptime]
        match gamma {
            ComptimeOption::Some(gamma) => {
                let gamma = self.part(gamma, &self.gamma, i, column, length);
                let gamma = factor::<G, A, V>(gamma, self.formula);
                #[comptime]
                match beta {
                    // Rounded once, as the compiler may have it in some kernels and not in others.
                    ComptimeOption::Some(beta) => {
                        let beta = self.part(beta, &self.beta, i, column, length);
                        value = fma(value, gamma, widened::<B, A, V>(beta));
                    }
                    ComptimeOption::None => value *= gamma,
                }
            }
            ComptimeOption::None =>
            {
                #[comptime]
                match beta {
                    ComptimeOption::Some(beta) => {
                        let beta = self.part(beta, &self.beta, i, column, length);
                        value += widened::<B, A, V>(beta);
                    }
                    ComptimeOption::None => {}
                }
            }
        }
        value
    }

    /// What is `loaded` of a parameter, or else read now.
    fn part<T: Numeric>(
        &self,
        parameter: &[Vector<T, V>],
        loaded: &Array<Vector<T, V>>,
        #[comptime] i: usize,
        column: usize,
        length: &Length,
    ) -> Vector<T, V> {
        let blueprint = self.blueprint;
        if comptime!(blueprint.parameters) {
            loaded[i]
        } else {
            let ends = comptime!(blueprint.ends_of(i));
            read_any(parameter, &self.row, column, length, ends)
        }
    }
}
