use super::RmsNorm;
use crate::errors::norm_errors;

norm_errors!(RmsNorm);
