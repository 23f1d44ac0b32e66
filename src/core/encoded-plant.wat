;; The very form in which encodeNewPlant writes nearly every plant, recognised:
;;
;;   {"id":7,"name":"Fern"}  or  {"id":7,"name":"Fern","tag":"indoor"}
;;
;; without a space, with an id that is written shortest and strings without escapes but \" and \\.
;;
;; The bytes lie at 0, in UTF-8, with a zero behind the last of them: no part of a plant is a zero,
;; so nothing that lies behind it is ever judged. A word's lowest byte comes first: the literals
;; read from right to left.
;;
;; It is no TypeScript because a scan looks at every byte: that has no integers of 64 bits to hold
;; eight bytes or an id, and checks the bounds of every access. A line of 64 bytes took 60 ns there
;; and takes 35 here, with the copy and the call, whatever its script.
;;
;; test/package/wasm.mjs makes encoded-plant-wasm.ts of it.
(module
  ;; Of a fixed size, or V8 would try for gigabytes of addresses where it is short of them.
  (memory (export "memory") 17 17)
  ;; How many bytes there may be in front of the zero.
  (global (export "bytesMax") i32 (i32.const 0x100000))
  ;; Where the id of the plant that was found last lies, an int64.
  (global $id_place (export "idPlace") i32 (i32.const 0x100010))

  ;; Looks for a plant that starts at $at, which is not above bytesMax. Returns the offset behind
  ;; its closing brace, or -1 when this is none.
  (func (export "find") (param $at i32) (result i32)
    (local $digits i32) ;; where those of the id start
    (local $count i32) ;; of the digits
    (local $is_negative i32)
    (local $digit i32)
    (local $eight i64) ;; digits, in a byte each; then their value
    (local $id i64)

    (block $none
      (br_if $none (i32.ne (i32.load (local.get $at)) (i32.const 0x6469227b))) ;; {"id
      (br_if $none (i32.ne (i32.load16_u offset=4 (local.get $at)) (i32.const 0x3a22))) ;; ":
      (local.set $is_negative (i32.eq (i32.load8_u offset=6 (local.get $at)) (i32.const 0x2d))) ;; -
      (local.set $digits
        (i32.add (i32.add (local.get $at) (i32.const 6)) (local.get $is_negative)))

      (local.set $at (local.get $digits))
      (loop $eights
        (local.set $eight
          (i64.xor (i64.load (local.get $at)) (i64.const 0x3030303030303030)))
        ;; Each is a digit where none has its highest bit, nor with 0x76 added.
        (if
          (i64.eqz
            (i64.and
              (i64.or
                (local.get $eight)
                (i64.add (local.get $eight) (i64.const 0x7676767676767676)))
              (i64.const 0x8080808080808080)))
          (then
            ;; Neighbours are joined, then pairs, then fours: the first digit is the lowest byte.
            (local.set $eight
              (i64.and
                (i64.add
                  (i64.mul (local.get $eight) (i64.const 10))
                  (i64.shr_u (local.get $eight) (i64.const 8)))
                (i64.const 0x00ff00ff00ff00ff)))
            (local.set $eight
              (i64.and
                (i64.add
                  (i64.mul (local.get $eight) (i64.const 100))
                  (i64.shr_u (local.get $eight) (i64.const 16)))
                (i64.const 0x0000ffff0000ffff)))
            (local.set $eight
              (i64.and
                (i64.add
                  (i64.mul (local.get $eight) (i64.const 10_000))
                  (i64.shr_u (local.get $eight) (i64.const 32)))
                (i64.const 0xffffffff)))
            (local.set $id
              (i64.add (i64.mul (local.get $id) (i64.const 100_000_000)) (local.get $eight)))
            (local.set $at (i32.add (local.get $at) (i32.const 8)))
            (br $eights))))
      (loop $ones
        (local.set $digit (i32.sub (i32.load8_u (local.get $at)) (i32.const 0x30)))
        (if (i32.le_u (local.get $digit) (i32.const 9))
          (then
            (local.set $id
              (i64.add
                (i64.mul (local.get $id) (i64.const 10))
                (i64.extend_i32_u (local.get $digit))))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br $ones))))

      ;; Nineteen digits fit an unsigned i64. What passes an int64 has the highest bit, as the
      ;; lowest int64 has, which is left to others, too.
      (local.set $count (i32.sub (local.get $at) (local.get $digits)))
      (br_if $none (i32.eqz (local.get $count)))
      (br_if $none (i32.gt_u (local.get $count) (i32.const 19)))
      (br_if $none (i64.lt_s (local.get $id) (i64.const 0)))
      ;; A leading zero is no JSON, and -0 no number of its own.
      (if (i32.eq (i32.load8_u (local.get $digits)) (i32.const 0x30))
        (then
          (br_if $none (local.get $is_negative))
          (br_if $none (i32.ne (local.get $count) (i32.const 1)))))
      (if (local.get $is_negative)
        (then (local.set $id (i64.sub (i64.const 0) (local.get $id)))))
      (i64.store (global.get $id_place) (local.get $id))

      (br_if $none (i64.ne (i64.load (local.get $at)) (i64.const 0x3a22656d616e222c))) ;; ,"name":
      (br_if $none (i32.ne (i32.load8_u offset=8 (local.get $at)) (i32.const 0x22))) ;; "
      (local.set $at (call $skip_text (i32.add (local.get $at) (i32.const 9))))
      (br_if $none (i32.eqz (local.get $at)))
      (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 0x2c)) ;; ,
        (then
          (br_if $none (i64.ne (i64.load (local.get $at)) (i64.const 0x223a22676174222c))) ;; ,"tag":"
          (local.set $at (call $skip_text (i32.add (local.get $at) (i32.const 8))))
          (br_if $none (i32.eqz (local.get $at)))))
      (br_if $none (i32.ne (i32.load8_u (local.get $at)) (i32.const 0x7d))) ;; }
      (return (i32.add (local.get $at) (i32.const 1))))
    (i32.const -1))

  ;; Returns the offset behind the quote that ends a text, or 0 where the text is left to others.
  (func $skip_text (param $at i32) (result i32)
    (local $word i64)
    (local $flags i64)
    (local $pair i32) ;; the byte that was flagged, and the one behind it

    (loop $words
      ;; Flags a control character, a quote and a backslash by the highest bit of its byte: it is
      ;; set by taking 0x20 away, or one from the zero that the exclusive or has made. Bytes that
      ;; are not ASCII are no matter, and neither flagged nor borrow. A borrow comes from a byte
      ;; that is flagged itself, so the first flag is always true; those behind it may not be.
      (local.set $word (i64.load (local.get $at)))
      (local.set $flags
        (i64.and
          (i64.and
            (i64.xor (local.get $word) (i64.const -1))
            (i64.const 0x8080808080808080))
          (i64.or
            (i64.sub (local.get $word) (i64.const 0x2020202020202020))
            (i64.or
              (i64.sub
                (i64.xor (local.get $word) (i64.const 0x2222222222222222))
                (i64.const 0x0101010101010101))
              (i64.sub
                (i64.xor (local.get $word) (i64.const 0x5c5c5c5c5c5c5c5c))
                (i64.const 0x0101010101010101))))))
      (if (i64.eqz (local.get $flags))
        (then
          (local.set $at (i32.add (local.get $at) (i32.const 8)))
          (br $words)))

      (local.set $at
        (i32.add
          (local.get $at)
          (i32.wrap_i64 (i64.shr_u (i64.ctz (local.get $flags)) (i64.const 3)))))
      (local.set $pair (i32.load16_u (local.get $at)))
      (if
        (i32.or
          (i32.eq (local.get $pair) (i32.const 0x225c)) ;; \"
          (i32.eq (local.get $pair) (i32.const 0x5c5c))) ;; \\
        (then
          (local.set $at (i32.add (local.get $at) (i32.const 2)))
          (br $words))))
    (select
      (i32.add (local.get $at) (i32.const 1))
      (i32.const 0)
      (i32.eq (i32.load8_u (local.get $at)) (i32.const 0x22)))))
