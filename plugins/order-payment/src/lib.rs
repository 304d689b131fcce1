//! Every order gives exactly one result: paid or unpaid.
