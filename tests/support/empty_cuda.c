/*
 * empty_cuda: a driver that has one entry point of all that are needed.
 */
__attribute__((visibility("default"))) unsigned int cuInit(unsigned int flags);

unsigned int cuInit(unsigned int flags)
{
    return flags;
}
