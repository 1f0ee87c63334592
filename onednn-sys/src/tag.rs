//! Memory formats and their names.
//!
//! A name lists the dimensions from outermost to innermost; `a` is dimension 0. An upper-case letter is a dimension
//! that also has a block inside, and `16b` is such a block.

use std::ffi::c_int;

/// Returns the number of a format in the C API, if it has one.
#[must_use]
pub fn find(name: &str) -> Option<Tag> {
    TAGS.iter().find(|(known, _)| *known == name).map(|(_, number)| Tag(*number))
}

/// A memory format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub(crate) c_int);

impl Tag {
    /// Lets the primitive choose the format.
    pub const ANY: Self = Self(1);
}

/// The numbers are the same in all versions 3.x.
#[rustfmt::skip]
const TAGS: &[(&str, c_int)] = &[
    ("a", 2), ("ab", 3), ("abc", 4), ("abcd", 5), ("abcde", 6), ("ba", 14), ("acb", 15), ("bac", 16),
    ("bca", 17), ("cab", 18), ("cba", 19), ("abdc", 20), ("acbd", 21), ("acdb", 22), ("adbc", 23),
    ("adcb", 24), ("bacd", 25), ("bcda", 26), ("cdab", 27), ("cdba", 28), ("dcab", 29), ("abced", 30),
    ("abdec", 31), ("acbde", 32), ("acdeb", 33), ("adecb", 34), ("bacde", 35), ("bcdea", 36), ("cdeab", 37),
    ("cdeba", 38), ("decab", 39), ("Abc16a", 52), ("ABc16a16b", 53), ("ABc32a32b", 54), ("ABc4a4b", 55),
    ("aBc16b", 56), ("ABc16b16a", 57), ("Abc4a", 58), ("aBc32b", 59), ("aBc4b", 60), ("ABc4b4a", 65),
    ("ABc8a8b", 67), ("aBc8b", 69), ("ABc8b8a", 72), ("Abcd16a", 73), ("Abcd8a", 74), ("ABcd16a16b", 75),
    ("Abcd32a", 76), ("ABcd32a32b", 77), ("aBcd16b", 78), ("ABcd16b16a", 79), ("aBCd16b16c", 80),
    ("aBCd16c16b", 81), ("Abcd4a", 82), ("aBcd32b", 83), ("aBcd4b", 84), ("ABcd4b4a", 88), ("ABcd4a4b", 89),
    ("aBCd4c4b", 96), ("aBCd4b4c", 97), ("ABcd8a8b", 100), ("aBcd8b", 102), ("ABcd8b8a", 107),
    ("aBCd8b8c", 108), ("aBCd8c8b", 113), ("Abcde16a", 114), ("Abcde32a", 115), ("ABcde16a16b", 116),
    ("aBcde16b", 121), ("ABcde16b16a", 122), ("aBCde16b16c", 123), ("aBCde16c16b", 124), ("Abcde4a", 126),
    ("aBcde32b", 127), ("aBcde4b", 128), ("ABcde4b4a", 129), ("ABcde4a4b", 130), ("aBCde4b4c", 131),
    ("aBCde4c4b", 137), ("Abcde8a", 138), ("ABcde8a8b", 139), ("BAcde16b16a", 141), ("aBcde8b", 142),
    ("ABcde8b8a", 147), ("ABcde32a32b", 148), ("aBCde8b8c", 149), ("aBCde8c8b", 162), ("aBdc16b", 183),
    ("aBdC16b2c", 184), ("aBdc4b", 186), ("aBdc8b", 187), ("aBdec16b", 188), ("aBdeC16b2c", 189),
    ("aBdec32b", 191), ("aBdec4b", 192), ("aBdec8b", 193), ("aBedc16b", 201), ("Acb16a", 202),
    ("AcB16a2b", 203), ("Acb4a", 205), ("Acb8a", 206), ("aCBd16b16c", 207), ("aCBd16c16b", 208),
    ("aCBde16b16c", 209), ("aCBde16c16b", 210), ("Acdb16a", 211), ("AcdB16a2b", 212), ("Acdb32a", 214),
    ("Acdb4a", 215), ("Acdb8a", 216), ("Acdeb16a", 217), ("AcdeB16a2b", 218), ("Acdeb4a", 219),
    ("Acdeb8a", 220), ("Adcb16a", 221), ("BAc16a16b", 222), ("BAc16b16a", 223), ("BAcd16a16b", 224),
    ("BAcd16b16a", 225), ("BAcde16a16b", 229), ("ABc16b32a", 231), ("ABc16b64a", 232), ("AB16b16a", 237),
    ("AB16b32a", 238), ("AB16b64a", 239), ("ABcd16b32a", 247), ("ABcd16b64a", 248), ("ABcde16b32a", 257),
    ("ABcde16b64a", 258), ("AB8a2b", 266), ("abDc32d", 267), ("abdEc32e", 269), ("abdEC32e2c", 270),
    ("Acb32a", 278), ("AcB32a2b", 279), ("Acb48a", 281), ("AcB48a2b", 282), ("Acb64a", 284),
    ("AcB64a2b", 285), ("cBa2b", 287), ("cBa4b", 288), ("aBdc32b", 289), ("aBdC32b2c", 290),
    ("aBdc48b", 292), ("aBdC48b2c", 293), ("aBdc64b", 295), ("aBdC64b2c", 296), ("adCb2c", 298),
    ("adCb4c", 299), ("AcdB32a2b", 300), ("Acdb48a", 302), ("AcdB48a2b", 303), ("Acdb64a", 305),
    ("AcdB64a2b", 306), ("cdBa2b", 308), ("cdBa4b", 309), ("aBdeC32b2c", 310), ("aBdec48b", 312),
    ("aBdeC48b2c", 313), ("aBdec64b", 315), ("aBdeC64b2c", 316), ("adeCb2c", 318), ("adeCb4c", 319),
    ("Acdeb32a", 320), ("AcdeB32a2b", 321), ("Acdeb48a", 323), ("AcdeB48a2b", 324), ("Acdeb64a", 326),
    ("AcdeB64a2b", 327), ("cdeBa2b", 329), ("cdeBa4b", 330), ("ABc32a16b", 367), ("ABcd32a16b", 368),
    ("ABcde32a16b", 369), ("AB48a16b", 370), ("AB48a32b", 371), ("aBC48b16c", 374), ("aBC48b32c", 375),
    ("abCd32c", 378), ("abdCe32c", 379), ("abdCE32c2e", 380), ("ABcd8a2b", 389), ("decbA16a", 438),
    ("ABc4a2b", 439), ("ABc8a2b", 440), ("aBCd8b2c", 441), ("ABcde4a2b", 442), ("ABcde8a2b", 443),
    ("aBCde8b2c", 446), ("AB32a16b", 460), ("AB32a32b", 461), ("aBC32b16c", 464), ("aBC32b32c", 465),
    ("ABcd4a2b", 468), ("BA16a16b", 503), ("BA16a32b", 504), ("BA16a48b", 505), ("BA16a64b", 506),
    ("aCB16c2b", 507), ("BA16b2a", 509), ("aBC16b16c", 511), ("aBC16b32c", 512), ("AB16a16b", 513),
    ("AB16a32b", 514), ("Acedb16a", 517), ("abdEC64e2c", 519), ("aCB16b16c", 521), ("aCB16b32c", 522),
    ("aCB16b48c", 523), ("aCB16b64c", 524), ("abCd4c", 533), ("abCde4c", 534), ("abCde32c", 536),
    ("ABcd16a32b", 538), ("decbA8a", 539), ("Bcdea32b", 561), ("BcdeA32b2a", 562), ("Bcdea48b", 564),
    ("BcdeA48b2a", 565), ("Bcdea64b", 567), ("BcdeA64b2a", 568), ("Bca32b", 570), ("BcA32b2a", 571),
    ("Bca48b", 573), ("BcA48b2a", 574), ("Bca64b", 576), ("BcA64b2a", 577), ("aCdb32c", 579),
    ("aCdB32c2b", 580), ("aCdb48c", 582), ("aCdB48c2b", 583), ("aCdb64c", 585), ("aCdB64c2b", 586),
    ("Bca16b", 624), ("BcA16b2a", 625), ("Bcda16b", 627), ("BcdA16b2a", 628), ("Bcdea16b", 630),
    ("BcdeA16b2a", 631), ("aCdb16c", 633), ("aCdB16c2b", 634), ("aCdeb16c", 636), ("aCdeB16c2b", 637),
    ("Bcda32b", 642), ("BcdA32b2a", 643), ("Bcda48b", 645), ("BcdA48b2a", 646), ("Bcda64b", 648),
    ("BcdA64b2a", 649), ("aCdeb32c", 651), ("aCdeB32c2b", 652), ("aCdeb48c", 654), ("aCdeB48c2b", 655),
    ("aCdeb64c", 657), ("aCdeB64c2b", 658), ("abDc16d", 666), ("abdEc16e", 667), ("abdCe16c", 668),
    ("AcB8a2b", 675), ("AcdB8a2b", 676), ("AcdeB8a2b", 677), ("aBdC8b2c", 678), ("aBdeC8b2c", 679),
    ("AB8b32a", 681), ("ABc8b32a", 682), ("ABcd8b32a", 683), ("ABcde8b32a", 684), ("AB8b16a", 689),
    ("ABc8b16a", 690), ("ABcd8b16a", 691), ("ABcde8b16a", 692), ("AB8b8a", 693),
    ("ABcd16b16a2b", 87), ("ABcd8b16a2b", 104), ("aBCde8c16b2c", 161), ("ABcd16b32a2b", 358), ("ABcd16b48a2b", 359),
    ("ABcd16b64a2b", 360), ("BA16a16b2a", 381), ("BA16a32b2a", 382), ("BA16a48b2a", 383), ("BA16a64b2a", 384),
    ("AcdB16a4b", 213), ("AcdB32a4b", 301), ("AcdB48a4b", 304), ("AcdB64a4b", 307), ("AcdB16b16a4b", 396),
    ("AcdB16b32a4b", 415), ("AcdB16b48a4b", 417), ("AcdB16b64a4b", 419), ("BA16a64b4a", 388),
];
