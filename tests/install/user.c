/* user: the smallest program that uses an installed Pleat; prints the version. */
#include <pleat/allocator.h>
#include <stdio.h>

int main(void)
{
    return puts(pleat_version()) < 0;
}
