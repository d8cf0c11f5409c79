use burn::backend::{
    Backend, ExtensionType,
    tensor::{BoolTensor, FloatTensor},
};

/// An optional float tensor that can cross the backend boundary: a parameter that may be left
/// out, or a gradient that may not be wanted.
#[derive(ExtensionType, Debug, Clone)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub enum OptionalTensor<B: Backend> {
    /// No tensor.
    None,
    /// A tensor.
    Some(FloatTensor<B>),
}

impl<B: Backend> OptionalTensor<B> {
    /// The tensor as a plain [`Option`].
    pub fn into_option(self) -> Option<FloatTensor<B>> {
        match self {
            Self::None => None,
            Self::Some(tensor) => Some(tensor),
        }
    }
}

impl<B: Backend> From<Option<FloatTensor<B>>> for OptionalTensor<B> {
    fn from(tensor: Option<FloatTensor<B>>) -> Self {
        tensor.map_or(Self::None, Self::Some)
    }
}

/// An optional mask that can cross the backend boundary.
#[derive(ExtensionType, Debug, Clone)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub enum OptionalBoolTensor<B: Backend> {
    /// No mask.
    None,
    /// A mask.
    Some(BoolTensor<B>),
}

impl<B: Backend> OptionalBoolTensor<B> {
    /// The mask as a plain [`Option`].
    pub fn into_option(self) -> Option<BoolTensor<B>> {
        match self {
            Self::None => None,
            Self::Some(tensor) => Some(tensor),
        }
    }
}

impl<B: Backend> From<Option<BoolTensor<B>>> for OptionalBoolTensor<B> {
    fn from(tensor: Option<BoolTensor<B>>) -> Self {
        tensor.map_or(Self::None, Self::Some)
    }
}
