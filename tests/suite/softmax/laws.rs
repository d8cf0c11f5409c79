mod plain {
    use crate::{laws::laws, softmax::Softmax};

    laws!(Softmax(-1));
}

mod log {
    use crate::{laws::laws, softmax::LogSoftmax};

    laws!(LogSoftmax(-1));
}
