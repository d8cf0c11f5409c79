use super::RmsNorm;
use crate::laws::laws;

laws!(RmsNorm::default());
