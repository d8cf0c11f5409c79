use super::LayerNorm;
use crate::laws::laws;

laws!(LayerNorm::default());
