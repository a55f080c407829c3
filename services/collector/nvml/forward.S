//go:build linux && cgo && (amd64 || arm64)

/*
 * The functions themselves. Each jumps through its slot and touches nothing that holds an argument, so it need not know what the
 * function takes. They are hidden: go-nvml's calls are bound to them when the program is linked, and a library that the program
 * loads never sees them in the place of its own.
 */

.set index, 0

/* An indirect call may land on each of them, where the processor checks that (endbr64, and bti c, which is hint 34). */
.macro forward name
	.globl	\name
	.hidden	\name
	.type	\name, %function
	.balign	16
\name:
#if defined(__x86_64__)
	endbr64
	jmp	*(gpuhour_nvml_slots + 8 * index)(%rip)
#elif defined(__aarch64__)
	hint	#34
	adrp	x16, gpuhour_nvml_slots + 8 * index
	ldr	x16, [x16, #:lo12:gpuhour_nvml_slots + 8 * index]
	br	x16
#endif
	.size	\name, . - \name
	.set	index, index + 1
.endm

	.hidden	gpuhour_nvml_slots
	.text
#define CALL(name) forward name
#define TEXT(name) forward name
#include "symbols.h"

#if defined(__aarch64__)
/* This object does not keep the linker from marking a program as one with landing pads (GNU_PROPERTY_AARCH64_FEATURE_1_AND, BTI). */
	.section .note.gnu.property, "a", %note
	.balign	8
	.word	4, 16, 5
	.asciz	"GNU"
	.word	0xc0000000, 4, 1, 0
#endif

/* Nor does it make the stack executable. */
	.section .note.GNU-stack, "", %progbits
