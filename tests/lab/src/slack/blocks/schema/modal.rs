//! The shapes of modals and of the inputs in them.

use super::Shape::{Bool, List, Number, Object, Str, Text, Typed, Whole, Word};
use super::{
    ACTION_ID, ACTIONS, ANY, BLOCK_ID, CHANNELS_SELECT, CHECKBOXES, CONTEXT, DATEPICKER, DIVIDER, EXTERNAL_SELECT,
    FOCUS, Field, HEADER, IMAGE, Kind, MULTI_STATIC_SELECT, PLACEHOLDER, PLAIN, RADIO_BUTTONS, RICH_TEXT, SECTION,
    STATIC_SELECT, Shape, USERS_SELECT, kind, opt, req,
};

/// A modal without its blocks.
pub(in super::super) static VIEW: Shape = Typed(&[kind(
    "modal",
    &[
        req("title", Text(PLAIN, 24)),
        req("blocks", List(0, 100, &VIEW_BLOCK)),
        opt("close", Text(PLAIN, 24)),
        opt("submit", Text(PLAIN, 24)),
        opt("private_metadata", Str(0, 3000)),
        opt("callback_id", Str(0, 255)),
        opt("external_id", Str(0, 255)),
        opt("clear_on_close", Bool),
        opt("notify_on_close", Bool),
        opt("submit_disabled", Bool),
    ],
)]);

/// The blocks that a modal may hold.
pub(in super::super) static VIEW_BLOCK: Shape =
    Typed(&[HEADER, SECTION, CONTEXT, DIVIDER, ACTIONS, IMAGE, RICH_TEXT, INPUT]);

const INPUT: Kind = kind(
    "input",
    &[
        req("label", Text(PLAIN, 2000)),
        req("element", Typed(INPUTS)),
        opt("hint", Text(PLAIN, 2000)),
        opt("optional", Bool),
        opt("dispatch_action", Bool),
        BLOCK_ID,
    ],
);

const INITIAL: Field = opt("initial_value", Str(0, 3000));
const DISPATCH: Field = opt(
    "dispatch_action_config",
    Object(&[opt("trigger_actions_on", List(1, 2, &Word(&["on_enter_pressed", "on_character_entered"])))]),
);

const INPUTS: &[Kind] = &[
    kind(
        "plain_text_input",
        &[
            opt("multiline", Bool),
            opt("min_length", Whole(0, 3000)),
            opt("max_length", Whole(1, 3000)),
            INITIAL,
            DISPATCH,
            PLACEHOLDER,
            ACTION_ID,
            FOCUS,
        ],
    ),
    kind(
        "number_input",
        &[
            req("is_decimal_allowed", Bool),
            opt("min_value", Str(1, ANY)),
            opt("max_value", Str(1, ANY)),
            INITIAL,
            DISPATCH,
            PLACEHOLDER,
            ACTION_ID,
            FOCUS,
        ],
    ),
    kind("email_text_input", &[INITIAL, DISPATCH, PLACEHOLDER, ACTION_ID, FOCUS]),
    kind("url_text_input", &[INITIAL, DISPATCH, PLACEHOLDER, ACTION_ID, FOCUS]),
    kind("timepicker", &[opt("initial_time", Str(5, 5)), opt("timezone", Str(1, ANY)), PLACEHOLDER, ACTION_ID, FOCUS]),
    kind("datetimepicker", &[opt("initial_date_time", Number), ACTION_ID, FOCUS]),
    STATIC_SELECT,
    EXTERNAL_SELECT,
    MULTI_STATIC_SELECT,
    USERS_SELECT,
    CHANNELS_SELECT,
    CHECKBOXES,
    RADIO_BUTTONS,
    DATEPICKER,
];
