//! The shapes of Block Kit's blocks and elements, as tables.
//!
//! What may stand in a message, and what in a modal: `alert` and `file` blocks are unknown here. Limits are those of
//! <https://docs.slack.dev/reference/block-kit/>.

mod modal;

pub(super) use modal::{VIEW, VIEW_BLOCK};

use Shape::{Bool, Image, Link, List, Number, Object, Str, Text, Typed, Whole, Word};

/// What a JSON value must look like.
pub(super) enum Shape {
    /// A string of so many UTF-16 code units, from least to most.
    Str(usize, usize),
    /// One of these strings.
    Word(&'static [&'static str]),
    Bool,
    Number,
    /// A whole number in a closed range.
    Whole(i64, i64),
    /// A link a person can follow, of at most so many characters.
    Link(usize),
    /// An http(s) address of a picture.
    Image,
    /// From least to most items of one shape.
    List(usize, usize, &'static Shape),
    /// An object without a `type`.
    Object(&'static [Field]),
    /// An object told apart by its `type`.
    Typed(&'static [Kind]),
    /// A text object of one of these types, of at most so many characters.
    Text(&'static [&'static str], usize),
}

/// An object's fields beside `type`.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
}

/// One field of an object.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) required: bool,
    pub(super) shape: Shape,
}

const fn req(name: &'static str, shape: Shape) -> Field {
    Field { name, required: true, shape }
}

const fn opt(name: &'static str, shape: Shape) -> Field {
    Field { name, required: false, shape }
}

const fn kind(name: &'static str, fields: &'static [Field]) -> Kind {
    Kind { name, fields }
}

const ANY: usize = usize::MAX;
const PLAIN: &[&str] = &["plain_text"];
const EITHER: &[&str] = &["plain_text", "mrkdwn"];
const BLOCK_ID: Field = opt("block_id", Str(1, 255));
const ACTION_ID: Field = opt("action_id", Str(1, 255));
const CONFIRM: Field = opt("confirm", Object(CONFIRMATION));
const FOCUS: Field = opt("focus_on_load", Bool);
const PLACEHOLDER: Field = opt("placeholder", Text(PLAIN, 150));
const STYLE: Field = opt("style", Object(TEXT_STYLE));
const SLACK_FILE: Field = opt("slack_file", Object(&[opt("id", Str(1, ANY)), opt("url", Str(1, ANY))]));

/// The blocks that a message may hold.
pub(super) static BLOCK: Shape = Typed(&[
    HEADER,
    SECTION,
    CONTEXT,
    DIVIDER,
    ACTIONS,
    kind("context_actions", &[req("elements", List(1, 5, &Typed(CONTEXT_ACTIONS))), BLOCK_ID]),
    IMAGE,
    RICH_TEXT,
    kind("markdown", &[req("text", Str(1, 12_000)), BLOCK_ID]),
    kind(
        "table",
        &[
            req("rows", List(1, 100, &List(1, 20, &Typed(CELLS)))),
            opt("column_settings", List(0, 20, &Object(COLUMN))),
            BLOCK_ID,
        ],
    ),
    kind(
        "data_table",
        &[
            req("caption", Str(1, ANY)),
            req("rows", List(2, 101, &List(1, 20, &Typed(CELLS)))),
            opt("page_size", Whole(1, 100)),
            opt("row_header_column_index", Whole(0, 19)),
            BLOCK_ID,
        ],
    ),
    kind("data_visualization", &[req("title", Str(1, 50)), req("chart", Typed(CHARTS)), BLOCK_ID]),
]);

const HEADER: Kind = kind("header", &[req("text", Text(PLAIN, 150)), BLOCK_ID]);
const SECTION: Kind = kind(
    "section",
    &[
        opt("text", Text(EITHER, 3000)),
        opt("fields", List(1, 10, &Text(EITHER, 2000))),
        opt("accessory", Typed(ACCESSORIES)),
        opt("expand", Bool),
        BLOCK_ID,
    ],
);
const CONTEXT: Kind = kind("context", &[req("elements", List(1, 10, &CONTEXT_ELEMENT)), BLOCK_ID]);
const DIVIDER: Kind = kind("divider", &[BLOCK_ID]);
const ACTIONS: Kind = kind("actions", &[req("elements", List(1, 25, &Typed(ELEMENTS))), BLOCK_ID]);
const IMAGE: Kind = kind(
    "image",
    &[req("alt_text", Str(1, 2000)), opt("image_url", Image), SLACK_FILE, opt("title", Text(PLAIN, 2000)), BLOCK_ID],
);

const RICH_TEXT: Kind = kind("rich_text", &[req("elements", List(1, ANY, &Typed(RICH_BLOCKS))), BLOCK_ID]);

/// A text object or a small picture: `text` is checked by its own rules, so that its type decides.
const CONTEXT_ELEMENT: Shape = Typed(&[
    kind("plain_text", &[req("text", Str(1, 3000)), opt("emoji", Bool)]),
    kind("mrkdwn", &[req("text", Str(1, 3000)), opt("verbatim", Bool)]),
    IMAGE_ELEMENT,
]);

const IMAGE_ELEMENT: Kind = kind("image", &[req("alt_text", Str(1, 2000)), opt("image_url", Image), SLACK_FILE]);

const CONFIRMATION: &[Field] = &[
    opt("title", Text(PLAIN, 100)),
    req("text", Text(EITHER, 300)),
    opt("confirm", Text(PLAIN, 30)),
    opt("deny", Text(PLAIN, 30)),
    opt("style", Word(&["primary", "danger"])),
];

const PLAIN_OPTION: &[Field] = &[
    req("text", Text(PLAIN, 75)),
    req("value", Str(1, 150)),
    opt("description", Text(PLAIN, 75)),
    opt("url", Link(3000)),
];

const RICH_OPTION: &[Field] =
    &[req("text", Text(EITHER, 75)), req("value", Str(1, 150)), opt("description", Text(EITHER, 75))];

const OPTION_GROUP: &[Field] = &[req("label", Text(PLAIN, 75)), req("options", List(1, 100, &Object(PLAIN_OPTION)))];

const BUTTON: Kind = kind(
    "button",
    &[
        req("text", Text(PLAIN, 75)),
        ACTION_ID,
        opt("url", Link(3000)),
        opt("value", Str(1, 2000)),
        opt("style", Word(&["primary", "danger"])),
        CONFIRM,
        opt("accessibility_label", Str(1, 75)),
    ],
);

const OVERFLOW: Kind = kind("overflow", &[req("options", List(1, 5, &Object(PLAIN_OPTION))), ACTION_ID, CONFIRM]);

const STATIC_SELECT: Kind = kind(
    "static_select",
    &[
        opt("options", List(1, 100, &Object(PLAIN_OPTION))),
        opt("option_groups", List(1, 100, &Object(OPTION_GROUP))),
        opt("initial_option", Object(PLAIN_OPTION)),
        PLACEHOLDER,
        ACTION_ID,
        CONFIRM,
        FOCUS,
    ],
);

const MULTI_STATIC_SELECT: Kind = kind(
    "multi_static_select",
    &[
        opt("options", List(1, 100, &Object(PLAIN_OPTION))),
        opt("option_groups", List(1, 100, &Object(OPTION_GROUP))),
        opt("initial_options", List(1, 100, &Object(PLAIN_OPTION))),
        opt("max_selected_items", Whole(1, 100)),
        PLACEHOLDER,
        ACTION_ID,
        CONFIRM,
        FOCUS,
    ],
);

const EXTERNAL_SELECT: Kind = kind(
    "external_select",
    &[
        opt("initial_option", Object(PLAIN_OPTION)),
        opt("min_query_length", Whole(0, 1000)),
        PLACEHOLDER,
        ACTION_ID,
        CONFIRM,
        FOCUS,
    ],
);

const USERS_SELECT: Kind =
    kind("users_select", &[opt("initial_user", Str(1, ANY)), PLACEHOLDER, ACTION_ID, CONFIRM, FOCUS]);

const CHANNELS_SELECT: Kind =
    kind("channels_select", &[opt("initial_channel", Str(1, ANY)), PLACEHOLDER, ACTION_ID, CONFIRM, FOCUS]);

const CHECKBOXES: Kind = kind(
    "checkboxes",
    &[
        req("options", List(1, 10, &Object(RICH_OPTION))),
        opt("initial_options", List(1, 10, &Object(RICH_OPTION))),
        ACTION_ID,
        CONFIRM,
        FOCUS,
    ],
);

const RADIO_BUTTONS: Kind = kind(
    "radio_buttons",
    &[
        req("options", List(1, 10, &Object(RICH_OPTION))),
        opt("initial_option", Object(RICH_OPTION)),
        ACTION_ID,
        CONFIRM,
        FOCUS,
    ],
);

const DATEPICKER: Kind =
    kind("datepicker", &[opt("initial_date", Str(10, 10)), PLACEHOLDER, ACTION_ID, CONFIRM, FOCUS]);

const ELEMENTS: &[Kind] = &[
    BUTTON,
    OVERFLOW,
    STATIC_SELECT,
    EXTERNAL_SELECT,
    MULTI_STATIC_SELECT,
    USERS_SELECT,
    CHANNELS_SELECT,
    CHECKBOXES,
    RADIO_BUTTONS,
    DATEPICKER,
];

const ACCESSORIES: &[Kind] = &[
    BUTTON,
    OVERFLOW,
    IMAGE_ELEMENT,
    STATIC_SELECT,
    EXTERNAL_SELECT,
    MULTI_STATIC_SELECT,
    USERS_SELECT,
    CHANNELS_SELECT,
    CHECKBOXES,
    RADIO_BUTTONS,
    DATEPICKER,
];

const FEEDBACK_BUTTON: &[Field] =
    &[req("text", Text(PLAIN, 75)), req("value", Str(1, 2000)), opt("accessibility_label", Str(1, 75))];

const CONTEXT_ACTIONS: &[Kind] = &[
    kind(
        "feedback_buttons",
        &[req("positive_button", Object(FEEDBACK_BUTTON)), req("negative_button", Object(FEEDBACK_BUTTON)), ACTION_ID],
    ),
    kind(
        "icon_button",
        &[
            req("icon", Str(1, ANY)),
            req("text", Text(PLAIN, 75)),
            opt("value", Str(1, 2000)),
            opt("accessibility_label", Str(1, 75)),
            ACTION_ID,
            CONFIRM,
        ],
    ),
];

const TEXT_STYLE: &[Field] =
    &[opt("bold", Bool), opt("italic", Bool), opt("strike", Bool), opt("code", Bool), opt("underline", Bool)];

const INDENT: Field = opt("indent", Whole(0, 8));
const BORDER: Field = opt("border", Whole(0, 1));

const RICH_SECTION: Kind = kind("rich_text_section", &[req("elements", List(0, ANY, &Typed(RICH_SPANS)))]);

const RICH_BLOCKS: &[Kind] = &[
    RICH_SECTION,
    kind(
        "rich_text_list",
        &[
            req("style", Word(&["bullet", "ordered"])),
            req("elements", List(1, ANY, &Typed(&[RICH_SECTION]))),
            opt("offset", Whole(0, 100_000)),
            INDENT,
            BORDER,
        ],
    ),
    kind("rich_text_quote", &[req("elements", List(0, ANY, &Typed(RICH_SPANS))), BORDER]),
    kind(
        "rich_text_preformatted",
        &[req("elements", List(0, ANY, &Typed(&[RICH_TEXT_SPAN, RICH_LINK]))), BORDER, opt("language", Str(1, ANY))],
    ),
];

const RICH_TEXT_SPAN: Kind = kind("text", &[req("text", Str(1, ANY)), STYLE]);
const RICH_LINK: Kind = kind("link", &[req("url", Link(3000)), opt("text", Str(1, ANY)), opt("unsafe", Bool), STYLE]);

const RICH_SPANS: &[Kind] = &[
    RICH_TEXT_SPAN,
    RICH_LINK,
    kind("emoji", &[req("name", Str(1, ANY)), opt("unicode", Str(1, ANY)), STYLE]),
    kind("user", &[req("user_id", Str(1, ANY)), STYLE]),
    kind("usergroup", &[req("usergroup_id", Str(1, ANY)), STYLE]),
    kind("channel", &[req("channel_id", Str(1, ANY)), STYLE]),
    kind("broadcast", &[req("range", Word(&["here", "channel", "everyone"])), STYLE]),
    kind("color", &[req("value", Str(1, ANY)), STYLE]),
    kind(
        "date",
        &[
            req("timestamp", Number),
            req("format", Str(1, ANY)),
            opt("url", Link(3000)),
            opt("fallback", Str(1, ANY)),
            STYLE,
        ],
    ),
];

const CELLS: &[Kind] = &[
    kind("raw_text", &[req("text", Str(1, ANY))]),
    kind("raw_number", &[req("value", Number), req("text", Str(1, ANY))]),
    RICH_TEXT,
];

const COLUMN: &[Field] = &[opt("align", Word(&["left", "center", "right"])), opt("is_wrapped", Bool)];

const POINT: &[Field] = &[req("label", Str(1, 20)), req("value", Number)];
const SERIES: &[Field] = &[req("name", Str(1, 20)), req("data", List(1, 20, &Object(POINT)))];
const AXES: &[Field] =
    &[req("categories", List(1, 20, &Str(1, 20))), opt("x_label", Str(1, 50)), opt("y_label", Str(1, 50))];
const PLOT: &[Field] = &[req("series", List(1, 6, &Object(SERIES))), req("axis_config", Object(AXES))];

const CHARTS: &[Kind] = &[
    kind("line", PLOT),
    kind("bar", PLOT),
    kind("area", PLOT),
    kind("pie", &[req("segments", List(1, 6, &Object(POINT)))]),
];
