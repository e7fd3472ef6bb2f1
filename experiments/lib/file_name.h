/*
 * file_name: the name under which a file is reported.
 */
#ifndef PLEAT_EXPERIMENTS_FILE_NAME_H
#define PLEAT_EXPERIMENTS_FILE_NAME_H

/**
 * Base name of a path without its suffixes: "a/gpt.trace.xz" gives "gpt". A name that begins with
 * a dot keeps itself.
 * @return to be freed; NULL without host memory.
 */
char *pleat_file_base_name(const char *path);

#endif
