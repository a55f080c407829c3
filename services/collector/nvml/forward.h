/*
 * Every nvml function of go-nvml as one of our own, which jumps to the library's once that is loaded.
 *
 * go-nvml leaves its functions undefined in the program. A linker that is told -z now, or musl's loader always, wants them before
 * the program's first instruction, and without a driver there are none.
 */
#ifndef FORWARD_H
#define FORWARD_H

/*
 * gpuhour_nvml_bind leads every function to the library of that path, which has to be loaded and stays so. One that the library
 * lacks returns NVML_ERROR_FUNCTION_NOT_FOUND from then on. It returns 0 when the library is not loaded, else 1. The functions must
 * not be called meanwhile.
 */
int gpuhour_nvml_bind(const char *path);

#endif
